"""A file on disk and what it was when it was planned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import os


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
