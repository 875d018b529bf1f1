"""Reads 4 KiB of a file in a process of its own, so that a test never waits for a mount that nobody serves.

A test must not even fork while it has a file of such a mount open: closing it in the child asks the server.
Arguments: the path, the offset, `direct` or `cached`. It says `open`, reads at the first line of stdin, and
prints the bytes in hexadecimal, or the errno.
"""

from __future__ import annotations

import mmap
import os
import sys


def main() -> None:
    """Read once."""
    path, offset, way = sys.argv[1:]
    buffer = mmap.mmap(-1, 4096)  # aligned, as O_DIRECT demands
    descriptor = os.open(path, os.O_RDONLY | (os.O_DIRECT if way == "direct" else 0))
    print("open", flush=True)  # noqa: T201 - the test waits for it
    sys.stdin.readline()
    try:
        size = os.preadv(descriptor, [buffer], int(offset))
    except OSError as error:
        print(error.errno)  # noqa: T201
    else:
        print(buffer[:size].hex())  # noqa: T201


if __name__ == "__main__":
    main()
