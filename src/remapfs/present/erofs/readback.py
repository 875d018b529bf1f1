"""Reading a mount before anyone else does, and comparing it with the plan."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from remapfs.errors import RemapError
from remapfs.present.erofs.guards import FUSE
from remapfs.present.erofs.layout import Outside, PlacedFile
from remapfs.present.erofs.ondisk import BLOCK
from remapfs.present.reader import open_file

if TYPE_CHECKING:
    from collections.abc import Iterator

    from remapfs.present.erofs.layout import Layout


def read_back(mount: int, layout: Layout) -> None:
    """Read the head, the end and both sides of every seam of every file that stays outside the image.

    `mount` is a descriptor of the mount. Raises RemapError if a byte differs from what the Python reader
    gives, or cannot be read.
    """
    for placed in layout.placed:
        if isinstance(placed, PlacedFile) and placed.in_chunks:
            _read_file(mount, placed, layout.chunk)


def _read_file(mount: int, placed: PlacedFile, chunk: int) -> None:
    path = placed.file.path
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC, dir_fd=mount)
    try:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)
        with open_file(placed.file) as planned:
            for offset in sorted(set(_places(placed, chunk))):
                planned.seek(offset)
                if os.pread(descriptor, BLOCK, offset) != planned.read(BLOCK):
                    raise RemapError(
                        f"{path}: EROFS shows other bytes at {offset:,} than planned; nothing was mounted",
                        f"this is a bug of remapfs or of the kernel: please report it, and {FUSE}",
                    )
    except OSError as error:
        raise RemapError(f"{path}: cannot be read through EROFS: {error.strerror}", FUSE) from error
    finally:
        os.close(descriptor)


def _places(placed: PlacedFile, chunk: int) -> Iterator[int]:
    """Yield the offsets of the blocks to read."""
    size = placed.file.size
    yield 0
    yield (size - 1) // BLOCK * BLOCK
    for run in placed.runs:
        yield run.first * chunk
        if isinstance(run, Outside):
            end = min((run.first + run.count) * chunk, size)
            yield (end - 1) // BLOCK * BLOCK
    # Where the sources begin: the first block that is no longer a head.
    yield from (start - start % BLOCK for start in placed.file.starts)
