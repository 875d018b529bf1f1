"""Show a directory through the fusepy package in the way that its users write file systems.

Usage: plain_fusepy.py SOURCE MOUNTPOINT

A descriptor for each open file, a seek and a read under one lock, bytes returned to the package, and the
defaults of libfuse: the baseline that remapfs' own presenters are compared with. It renames nothing.
"""

from __future__ import annotations

import os
import sys
from threading import Lock
from typing import Any

from fuse import FUSE, FuseOSError, Operations

_FIELDS = ("st_mode", "st_nlink", "st_size", "st_uid", "st_gid", "st_atime", "st_mtime", "st_ctime")


class Passthrough(Operations):  # type: ignore[misc]  # the package has no types
    """The file system; paths are those of the source."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._lock = Lock()

    def getattr(self, path: str, fh: int | None = None) -> dict[str, Any]:
        """Stat a file or directory."""
        del fh
        try:
            status = os.lstat(self._root + path)
        except OSError as error:
            raise FuseOSError(error.errno) from error
        return {field: getattr(status, field) for field in _FIELDS}

    def readdir(self, path: str, fh: int) -> list[str]:
        """List a directory."""
        del fh
        return [".", "..", *os.listdir(self._root + path)]

    def open(self, path: str, flags: int) -> int:
        """Open a file; a reader's O_DIRECT is between it and the mount."""
        del flags
        return os.open(self._root + path, os.O_RDONLY)

    def read(self, path: str, size: int, offset: int, fh: int) -> bytes:
        """Read at a place."""
        del path
        with self._lock:
            os.lseek(fh, offset, os.SEEK_SET)
            return os.read(fh, size)

    def release(self, path: str, fh: int) -> None:
        """Close a file."""
        del path
        os.close(fh)


if __name__ == "__main__":
    FUSE(Passthrough(sys.argv[1]), sys.argv[2], foreground=True, ro=True)
