"""The system calls that make a mount from several files: fsopen, fsconfig, fsmount and move_mount."""

from __future__ import annotations

import ctypes
import os
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

# The same on every architecture but alpha.
_MOVE_MOUNT: Final = 429
_FSOPEN: Final = 430
_FSCONFIG: Final = 431
_FSMOUNT: Final = 432
# From include/uapi/linux/mount.h.
_CLOEXEC: Final = 1
_SET_FLAG: Final = 0
_SET_STRING: Final = 1
_CMD_CREATE: Final = 6
_ATTR_RDONLY: Final = 1
_ATTR_NOSUID: Final = 2
_ATTR_NODEV: Final = 4
_FROM_DESCRIPTOR: Final = 4
_AT_FDCWD: Final = -100

MAX_STRING: Final = 255
"""What fsconfig takes as the length of a value, in bytes."""
_LOG_SIZE: Final = 4096
_LIBC: Final = ctypes.CDLL(None, use_errno=True)


class MountError(Exception):
    """The kernel refused a mount: `number` is its errno, the text what it says about it, if anything."""

    def __init__(self, number: int, said: str) -> None:
        super().__init__(said or os.strerror(number))
        self.number = number


def new_mount(kind: str, settings: Sequence[tuple[str, str | None]]) -> int:
    """Make a read-only mount of a file system of type `kind` that is attached nowhere; return its descriptor.

    `settings` are applied in order; those with None are flags. The mount ends with the descriptor, unless it
    is attached. Raises MountError.
    """
    try:
        context = _call(_FSOPEN, kind.encode(), _CLOEXEC)
    except OSError as error:
        raise MountError(error.errno or 0, "") from None
    try:
        for key, value in (*settings, ("ro", None)):
            command = _SET_FLAG if value is None else _SET_STRING
            text = None if value is None else os.fsencode(value)
            _call(_FSCONFIG, context, command, key.encode(), text, 0)
        _call(_FSCONFIG, context, _CMD_CREATE, None, None, 0)
        return _call(_FSMOUNT, context, _CLOEXEC, _ATTR_RDONLY | _ATTR_NOSUID | _ATTR_NODEV)
    except OSError as error:
        raise MountError(error.errno or 0, _log(context)) from None
    finally:
        os.close(context)


def attach(mount: int, path: str) -> None:
    """Attach a mount from `new_mount` at the directory `path`; raises OSError."""
    _call(_MOVE_MOUNT, mount, b"", _AT_FDCWD, os.fsencode(path), _FROM_DESCRIPTOR)


def _call(number: int, *arguments: int | bytes | None) -> int:
    # As longs: variadic arguments of type int would leave the upper half of their registers undefined.
    values = (ctypes.c_long(each) if isinstance(each, int) else ctypes.c_char_p(each) for each in arguments)
    result = _LIBC.syscall(ctypes.c_long(number), *values)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return int(result)


def _log(context: int) -> str:
    """Read what the kernel says of a failure: messages that begin with their level, `e` for an error."""
    said = []
    while True:
        try:
            said.append(os.read(context, _LOG_SIZE).decode(errors="replace").strip())
        except OSError:
            return "; ".join(said)
