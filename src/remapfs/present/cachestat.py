"""How much of a file's range is in the page cache."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
from typing import Final

# cachestat(2), since Linux 6.5; the number is the same on every architecture (scripts/syscall.tbl).
_NUMBER: Final = 451


class _Range(ctypes.Structure):
    """struct cachestat_range."""

    _fields_ = (("offset", ctypes.c_uint64), ("length", ctypes.c_uint64))


class _Pages(ctypes.Structure):
    """struct cachestat: pages that are cached, dirty, being written, evicted, and evicted not long ago."""

    _fields_ = tuple(
        (name, ctypes.c_uint64) for name in ("cached", "dirty", "writing", "evicted", "recently")
    )


_LIBC: Final = ctypes.CDLL(None, use_errno=True)


def is_cached(descriptor: int, offset: int, length: int) -> bool:
    """Whether every page of a range of a file is in the page cache, as far as the kernel can say.

    Raises OSError if it cannot: ENOSYS before Linux 6.5, EOPNOTSUPP for some file systems.
    """
    pages = _Pages()
    wanted = _Range(offset, length)
    if _LIBC.syscall(_NUMBER, descriptor, ctypes.byref(wanted), ctypes.byref(pages), 0):
        number = ctypes.get_errno() or errno.EIO
        raise OSError(number, os.strerror(number))
    first, last = offset // mmap.PAGESIZE, (offset + length - 1) // mmap.PAGESIZE
    return bool(pages.cached > last - first)
