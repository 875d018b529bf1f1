"""preadv2 on every build of Python."""

from __future__ import annotations

import ctypes
import os
from typing import Final


def _from_python(descriptor: int, view: memoryview, offset: int, flags: int) -> int:
    return os.preadv(descriptor, [view], offset, flags)


class _Vector(ctypes.Structure):
    """struct iovec."""

    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


def from_libc(descriptor: int, view: memoryview, offset: int, flags: int) -> int:
    """Read into `view`, a writable one, from `offset` on; the same as os.preadv with `flags`."""
    vector = _Vector(ctypes.addressof(ctypes.c_char.from_buffer(view)), len(view))
    done: int = _LIBC.preadv2(descriptor, ctypes.byref(vector), 1, ctypes.c_long(offset), flags)
    if done < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return done


_LIBC: Final = ctypes.CDLL(None, use_errno=True)
_LIBC_READS: Final = hasattr(_LIBC, "preadv2")
if _LIBC_READS:
    _LIBC.preadv2.restype = ctypes.c_ssize_t

# Portable builds of Python (those that uv installs) are compiled for a C library without preadv2, and
# then os.preadv refuses flags; the C library that they run on has it.
preadv2: Final = from_libc if _LIBC_READS and not hasattr(os, "RWF_NOWAIT") else _from_python
