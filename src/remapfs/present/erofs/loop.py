"""Loop devices, for kernels that mount EROFS from block devices only."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import struct
from typing import TYPE_CHECKING, Final

from remapfs.errors import RemapError
from remapfs.present.erofs.guards import FUSE
from remapfs.present.erofs.ondisk import BLOCK

if TYPE_CHECKING:
    from collections.abc import Iterator

_CONTROL: Final = "/dev/loop-control"
# From include/uapi/linux/loop.h.
_CTL_GET_FREE: Final = 0x4C82
_CONFIGURE: Final = 0x4C0A
_SET_DIRECT_IO: Final = 0x4C08
_CONFIG: Final = struct.Struct("=II QQQQQ IIII 64s64s32s 16x 64x")
"""loop_config: descriptor, block size; then loop_info64: three fields that the kernel fills in, offset, size
limit, number, encryption and its key size, flags, names, key; then reserved fields."""
_READ_ONLY: Final = 1
_AUTOCLEAR: Final = 4
_TRIES: Final = 16


@contextlib.contextmanager
def loop_device(file: int, size: int, name: str) -> Iterator[str]:
    """Make the first `size` bytes of an open file, whole blocks of 4096, a read-only block device.

    Gives its path. It goes by itself once this context has ended and nothing has it mounted any more. Raises
    RemapError if the host has no loop devices.
    """
    descriptor, path = _configured(file, size // BLOCK * BLOCK, name)
    try:
        # Otherwise the file's pages would be cached a second time. Not every file system can.
        with contextlib.suppress(OSError):
            fcntl.ioctl(descriptor, _SET_DIRECT_IO, 1)
        yield path
    finally:
        os.close(descriptor)


def _configured(file: int, size: int, name: str) -> tuple[int, str]:
    try:
        control = os.open(_CONTROL, os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        raise RemapError(
            f"cannot use loop devices, which EROFS needs on this kernel: {_CONTROL}: {error.strerror}",
            f"load the module (modprobe loop), or {FUSE}",
        ) from None
    try:
        for _ in range(_TRIES):
            path = f"/dev/loop{fcntl.ioctl(control, _CTL_GET_FREE)}"
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                fcntl.ioctl(descriptor, _CONFIGURE, _config(file, size, name))
            except OSError as error:
                os.close(descriptor)
                if error.errno != errno.EBUSY:  # somebody else took it just now
                    raise
            else:
                return descriptor, path
    except OSError as error:
        raise RemapError(f"cannot make a loop device: {error.strerror}", FUSE) from error
    finally:
        os.close(control)
    raise RemapError("cannot make a loop device: all are taken again and again", FUSE)


def _config(file: int, size: int, name: str) -> bytes:
    flags = _READ_ONLY | _AUTOCLEAR
    return _CONFIG.pack(file, BLOCK, 0, 0, 0, 0, size, 0, 0, 0, flags, os.fsencode(name)[-63:], b"", b"")
