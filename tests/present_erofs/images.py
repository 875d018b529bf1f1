"""Making images in tests, without a mount."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

from present_erofs.erofs_reader import Image
from remapfs.checkpoint.source import Attributes, identify
from remapfs.plan.tree import Directory
from remapfs.present.erofs.image import write_image
from remapfs.present.erofs.layout import CHUNK, lay_out

if TYPE_CHECKING:
    from collections.abc import Sequence

    from remapfs.checkpoint.source import Source
    from remapfs.plan.extents import Slice, VirtualFile

ATTRIBUTES = Attributes(0o444, 12, 34, 1_600_000_000_987_654_321)
ROOT = Directory("", Attributes(0o555, 0, 0, 1_500_000_000_000_000_001))
UUID = bytes(range(16))


def source_of(path: Path) -> Source:
    """Identify a file as a checkpoint scan does."""
    return identify(str(path.resolve()), path.stat())


def written(path: Path, content: bytes) -> Source:
    """Write a source and identify it."""
    path.write_bytes(content)
    return source_of(path)


def read(part: Slice) -> bytes:
    """Read a slice, as simply as possible."""
    with open(part.source.path, "rb") as stream:
        stream.seek(part.offset)
        return stream.read(part.length)


def image_bytes(
    files: Sequence[VirtualFile], directories: Sequence[Directory] = (ROOT,), chunk: int = CHUNK
) -> bytes:
    """Make an image."""
    stream = io.BytesIO()
    write_image(stream, lay_out(files, directories, chunk), UUID, read)
    return stream.getvalue()


def image_of(
    files: Sequence[VirtualFile], directories: Sequence[Directory] = (ROOT,), chunk: int = CHUNK
) -> Image:
    """Make an image and read it with the tests' own reader."""
    layout = lay_out(files, directories, chunk)
    devices = [Path(source.path).read_bytes() for source in layout.devices]
    return Image(image_bytes(files, directories, chunk), devices)
