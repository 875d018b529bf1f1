"""A file system that shows a directory and fails when told: `failing_source.py DIRECTORY MOUNTPOINT CONTROL`.

While the file CONTROL exists, reads of bytes from the number in it on fail with EIO.
"""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path
from typing import Any

import fuse

_FIELDS = ("st_ino", "st_mode", "st_nlink", "st_size", "st_uid", "st_gid", "st_mtime")


class _Failing(fuse.Operations):  # type: ignore[misc]  # fusepy has no types
    def __init__(self, folder: str, control: Path) -> None:
        self._folder = folder
        self._control = control

    def getattr(self, path: str, fh: int | None = None) -> dict[str, Any]:
        del fh
        status = os.lstat(self._folder + path)
        return {field: getattr(status, field) for field in _FIELDS}

    def readdir(self, path: str, fh: int) -> list[str]:
        del fh
        return [".", "..", *os.listdir(self._folder + path)]

    def open(self, path: str, flags: int) -> int:
        return os.open(self._folder + path, flags)

    def release(self, path: str, fh: int) -> None:
        del path
        os.close(fh)

    def read(self, path: str, size: int, offset: int, fh: int) -> bytes:
        del path
        if self._control.exists() and offset + size > int(self._control.read_text()):
            raise fuse.FuseOSError(errno.EIO)
        return os.pread(fh, size, offset)


if __name__ == "__main__":
    folder, mountpoint, control = sys.argv[1:]
    # Without direct_io the kernel's cache would answer in its place; with use_ino files keep their identity.
    fuse.FUSE(
        _Failing(folder, Path(control)),
        mountpoint,
        foreground=True,
        direct_io=True,
        use_ino=True,
        allow_other=True,
        fsname="failing",
    )
