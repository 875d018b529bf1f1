"""Reads as many containers do: `containers.py MOUNT HOW_MANY NAME=SHA256…`; prints how many read right.

Every second process has a mount namespace of its own, as a container has, where the host allows it.
"""

from __future__ import annotations

import ctypes
import hashlib
import mmap
import os
import sys
from typing import NoReturn

_NEW_NAMESPACE = 0x20000  # CLONE_NEWNS of include/uapi/linux/sched.h


def main() -> int:
    """Start them all, let them begin together, and count."""
    mount, many, *files = sys.argv[1:]
    wanted = dict(file.split("=") for file in files)
    waiting, begin = os.pipe()
    children = []
    for number in range(int(many)):
        child = os.fork()
        if not child:
            os.close(begin)
            _read(mount, wanted, number, waiting)
        children.append(child)
    os.close(waiting)
    os.close(begin)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    print("right", codes.count(0), "wrong", len(codes) - codes.count(0))  # noqa: T201  # its answer
    return int(any(codes))


def _read(mount: str, wanted: dict[str, str], number: int, waiting: int) -> NoReturn:
    code = 1
    try:
        if number % 2 and os.geteuid() == 0 and ctypes.CDLL(None).unshare(_NEW_NAMESPACE):
            raise OSError("no mount namespace")
        os.read(waiting, 1)
        right = [
            _hash(os.path.join(mount, name), number + turn) == wanted[name]
            for turn, name in enumerate(wanted)
        ]
        code = int(not all(right))
    finally:
        os._exit(code)


def _hash(path: str, way: int) -> str:
    descriptor = os.open(path, os.O_RDONLY | (os.O_DIRECT if way % 3 == 0 else 0))
    size, digest = os.fstat(descriptor).st_size, hashlib.sha256()
    if way % 3 == 1:
        with mmap.mmap(descriptor, size, access=mmap.ACCESS_READ) as mapped:
            digest.update(mapped)
    else:
        piece = mmap.mmap(-1, 1 << 18)
        done = 0
        while got := os.preadv(descriptor, [piece], done):
            digest.update(piece[:got])
            done += got
    os.close(descriptor)
    return digest.hexdigest()


if __name__ == "__main__":
    sys.exit(main())
