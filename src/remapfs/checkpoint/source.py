"""A file on disk and what it was when it was planned."""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from dataclasses import dataclass
from typing import Final

# openat2(2): the same number on every architecture; struct open_how is flags, mode, resolve.
_OPENAT2: Final = 437
_OPEN_HOW: Final = struct.Struct("=QQQ")
_RESOLVE_NO_SYMLINKS: Final = 0x04  # include/uapi/linux/openat2.h
_AT_FDCWD: Final = -100
_FLAGS: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW
_LIBC: Final = ctypes.CDLL(None, use_errno=True)


class ChangedError(Exception):
    """A file that is not what it was when it was planned: the text says in what it differs."""


@dataclass(frozen=True, slots=True)
class Source:
    """A regular file that bytes are taken from, with its identity as seen at plan time.

    `path` is absolute with every symlink resolved; `size` is in bytes.
    """

    path: str
    size: int
    mtime_ns: int
    dev: int
    ino: int

    def changed(self, now: os.stat_result) -> str | None:
        """Say which field of the identity differs from `now`, or None when it is the same file."""
        if (
            now.st_size == self.size
            and now.st_mtime_ns == self.mtime_ns
            and now.st_ino == self.ino
            and now.st_dev == self.dev
        ):
            return None
        pairs = (
            ("size", self.size, now.st_size),
            ("mtime_ns", self.mtime_ns, now.st_mtime_ns),
            ("inode", self.ino, now.st_ino),
            ("device", self.dev, now.st_dev),
        )
        return ", ".join(f"{field} was {was}, is {found}" for field, was, found in pairs if was != found)


def open_source(source: Source) -> int:
    """Open a source for reading, and return the descriptor.

    Raises OSError if it cannot be opened, and ChangedError if its path leads to another file by now. A link
    that was put in its place, or in that of a directory above it, is not followed.
    """
    try:
        descriptor = _open_without_links(source.path)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise ChangedError("changed since it was planned: its path leads through a link now") from None
        raise
    try:
        check_unchanged(source, descriptor)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _open_without_links(path: str) -> int:
    how = _OPEN_HOW.pack(_FLAGS, 0, _RESOLVE_NO_SYMLINKS)
    encoded = os.fsencode(path)
    number = errno.EINTR
    while number == errno.EINTR:
        descriptor = int(
            _LIBC.syscall(
                ctypes.c_long(_OPENAT2),
                ctypes.c_long(_AT_FDCWD),
                ctypes.c_char_p(encoded),
                ctypes.c_char_p(how),
                ctypes.c_size_t(len(how)),
            )
        )
        if descriptor >= 0:
            return descriptor
        number = ctypes.get_errno()
    if number in {errno.ENOSYS, errno.EPERM}:  # before Linux 5.6, and in containers whose filter is that old
        return os.open(path, _FLAGS)
    raise OSError(number, os.strerror(number), path)


def check_unchanged(source: Source, descriptor: int) -> None:
    """Raise ChangedError if an open file is not the source any more, as it was planned."""
    difference = source.changed(os.fstat(descriptor))
    if difference:
        raise ChangedError(f"changed since it was planned: {difference}")


@dataclass(frozen=True, slots=True)
class Attributes:
    """What stat says of a file or directory besides its size: permission bits, owner and mtime.

    `mode` holds the nine permission bits only, without the write bits.
    """

    mode: int
    uid: int
    gid: int
    mtime_ns: int


def identify(path: str, status: os.stat_result) -> Source:
    """Record the identity of the file at `path`, a resolved path, from its `status`."""
    return Source(path, status.st_size, status.st_mtime_ns, status.st_dev, status.st_ino)
