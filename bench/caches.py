"""The page cache of single files: emptied, filled and counted.

Files are held open meanwhile: some file systems forget a file's pages each time that it is opened.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

_LIBC: Final = ctypes.CDLL(None, use_errno=True)
_LIBC.mmap.restype = ctypes.c_void_p
_LIBC.mmap.argtypes = (
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_long,
)
_LIBC.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
_LIBC.mincore.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)
_FAILED: Final = ctypes.c_void_p(-1).value
# Only the lowest bit of mincore's bytes means anything.
_LOWEST_BIT: Final = bytes(value & 1 for value in range(256))
_WARM: Final = 0.99


@contextmanager
def opened(paths: Iterable[Path]) -> Iterator[list[int]]:
    """Open files for reading, as descriptors."""
    descriptors: list[int] = []
    try:
        for path in paths:
            descriptors.append(os.open(path, os.O_RDONLY))  # noqa: PERF401 - those that opened get closed
        yield descriptors
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def resident(descriptors: Iterable[int]) -> int:
    """Count the bytes of these files that are in the page cache now, in whole pages."""
    return sum(_resident(descriptor) for descriptor in descriptors)


def drop(descriptors: Iterable[int]) -> None:
    """Empty the page cache of these files, and check that it is empty."""
    # Pages that are still to be written cannot be dropped.
    os.sync()
    for descriptor in descriptors:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        left = _resident(descriptor)
        if left:
            raise SystemExit(f"{left} bytes stay in the page cache; this cannot be measured here")


def warm(descriptors: Iterable[int]) -> None:
    """Read these files fully into the page cache, and check that they are in it."""
    buffer = bytearray(1 << 20)
    for descriptor in descriptors:
        size = os.fstat(descriptor).st_size
        for offset in range(0, size, len(buffer)):
            os.preadv(descriptor, [buffer], offset)
        if _resident(descriptor) < size * _WARM:
            raise SystemExit("a file does not stay in the page cache: too little memory for this --size")


def _resident(descriptor: int) -> int:
    size = os.fstat(descriptor).st_size
    if not size:
        return 0
    # Python's own mmap does not give its address; a mapping alone reads nothing.
    address = _LIBC.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, descriptor, 0)
    if address == _FAILED:
        raise OSError(ctypes.get_errno(), "mmap")
    try:
        pages = (ctypes.c_ubyte * -(-size // mmap.PAGESIZE))()
        if _LIBC.mincore(address, size, pages):
            raise OSError(ctypes.get_errno(), "mincore")
    finally:
        _LIBC.munmap(address, size)
    return (len(pages) - bytes(pages).translate(_LOWEST_BIT).count(0)) * mmap.PAGESIZE
