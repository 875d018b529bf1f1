"""Ranges of files shared by the kernel: FICLONERANGE, and what it says where it cannot."""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import tempfile
from typing import TYPE_CHECKING, Final

from remapfs.present.reflink.steps import Clone, steps_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from remapfs.checkpoint.source import Source
    from remapfs.plan.extents import VirtualFile

_FICLONERANGE: Final = 0x4020940D  # include/uapi/linux/fs.h
_RANGE: Final = struct.Struct("=qQQQ")
"""file_clone_range: source descriptor, source offset, length, target offset."""
_PAGE: Final = 4096
_LARGEST_BLOCK: Final = 65536
REFUSALS: Final = {
    errno.EXDEV: "the source lies on another file system",
    errno.EOPNOTSUPP: "this file system cannot share blocks between files",
    errno.ENOTTY: "this file system cannot share blocks between files",
    errno.ENOSYS: "this file system cannot share blocks between files",
    errno.EINVAL: "the file system refuses to share these blocks",
    errno.EPERM: "the file system does not permit sharing these blocks",
    errno.ETXTBSY: "the source is a swap file",
}
"""What the ioctl fails with where a copy would do, and what that means."""


def block_size(folder: str) -> int:
    """Give the size of the blocks that files in `folder` are shared by, in bytes."""
    size = os.statvfs(folder).f_bsize
    # Network file systems give their preferred transfer here, which no header is aligned to.
    return size if _PAGE <= size <= _LARGEST_BLOCK else _PAGE


def clone(step: Clone, source: int, target: int) -> None:
    """Share a range of one open file with another; raises OSError where the kernel cannot."""
    part = step.part
    fcntl.ioctl(target, _FICLONERANGE, _RANGE.pack(source, part.offset, part.length, step.at))


def reads_back(step: Clone, source: int, target: int, block: int) -> bool:
    """Compare the first and the last block of a cloned range with the source."""
    last = max(step.length - block, 0)
    return all(
        os.pread(source, block, step.part.offset + start) == os.pread(target, block, step.at + start)
        for start in {0, last}
    )


def probe(files: Iterable[VirtualFile], folder: str, block: int) -> Mapping[Source, str]:
    """Try a block of every source that could be cloned; give those that the kernel refuses, and why.

    Leaves nothing behind in `folder`. Raises OSError for anything else that goes wrong.
    """
    firsts: dict[Source, Clone] = {}
    for file in files:
        for step in steps_of(file, block, ()):
            if isinstance(step, Clone):
                firsts.setdefault(step.part.source, step)
    refused: dict[Source, str] = {}
    with tempfile.TemporaryFile(prefix=".remapfs-probe-", dir=folder) as target:
        for source, step in firsts.items():
            target.truncate(0)
            part = step.part.part(0, min(step.length, block))
            with open(source.path, "rb", buffering=0) as stream:
                try:
                    clone(Clone(0, part), stream.fileno(), target.fileno())
                except OSError as error:
                    if error.errno not in REFUSALS:
                        raise
                    refused[source] = REFUSALS[error.errno]
    return refused
