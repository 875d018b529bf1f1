"""Reads whole files past what the page cache has of them: `reading.py read|mmap|direct PATH`.

Prints the SHA-256, or the errno's name and the byte at which reading failed.
"""

from __future__ import annotations

import errno
import hashlib
import mmap
import os
import sys

_PIECE = 1 << 20


def main() -> None:
    """Read one file."""
    way, path = sys.argv[1:]
    digest, done = hashlib.sha256(), 0
    try:
        descriptor = os.open(path, os.O_RDONLY | (os.O_DIRECT if way == "direct" else 0))
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        size = os.fstat(descriptor).st_size
        if way == "mmap":
            # Where a page cannot be had, this process is killed by SIGBUS.
            with mmap.mmap(descriptor, size, access=mmap.ACCESS_READ) as mapped:
                digest.update(mapped)
        else:
            buffer = mmap.mmap(-1, _PIECE)  # aligned, as O_DIRECT demands
            while got := os.preadv(descriptor, [buffer], done):
                digest.update(buffer[:got])
                done += got
    except OSError as error:
        print(f"{errno.errorcode[error.errno or 0]} at {done}")  # noqa: T201  # its answer
    else:
        print(digest.hexdigest())  # noqa: T201  # its answer


if __name__ == "__main__":
    main()
