"""What makes a virtual file a real one: bytes to write, to copy and to clone; reads no file."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from remapfs.plan.extents import Literal, Slice

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    from remapfs.checkpoint.source import Source
    from remapfs.plan.extents import VirtualFile


class Reflink(StrEnum):
    """Whether bytes are shared with the source, as `cp --reflink` says it."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class Write:
    """Bytes that remapfs wrote itself, `at` in the new file."""

    at: int
    data: bytes

    @property
    def length(self) -> int:
        """The number of bytes."""
        return len(self.data)


@dataclass(frozen=True, slots=True)
class Copy:
    """A part of a source that takes room of its own, `at` in the new file."""

    at: int
    part: Slice

    @property
    def length(self) -> int:
        """The number of bytes."""
        return self.part.length


@dataclass(frozen=True, slots=True)
class Clone:
    """A part of a source that both files share, `at` in the new file."""

    at: int
    part: Slice

    @property
    def length(self) -> int:
        """The number of bytes."""
        return self.part.length


Step = Write | Copy | Clone


def steps_of(file: VirtualFile, block: int, uncloneable: Container[Source] | None) -> Iterator[Step]:
    """Give the steps that write a file, in its order.

    `block` is the target's block size in bytes. Nothing of the sources in `uncloneable` is cloned; with
    None, nothing at all.
    """
    for extent, at in zip(file.extents, file.starts, strict=True):
        match extent:
            case Literal(data):
                yield Write(at, data)
            case Slice(source):
                if uncloneable is None or source in uncloneable:
                    yield Copy(at, extent)
                else:
                    yield from _divide(extent, at, block, last=at + extent.length == file.size)


def unaligned(file: VirtualFile, block: int) -> int:
    """Count the bytes of slices of a block or more that lie otherwise in the blocks: no sharing."""
    return sum(
        extent.length
        for extent, at in zip(file.extents, file.starts, strict=True)
        if isinstance(extent, Slice) and extent.length >= block and (at - extent.offset) % block
    )


def untouched(file: VirtualFile) -> Source | None:
    """Give the source of a file that is presented as it lies on disk, and None for any other."""
    match file.extents:
        case (Slice(source, 0, length),) if length == source.size:
            return source
        case _:
            return None


def _divide(part: Slice, at: int, block: int, *, last: bool) -> Iterator[Step]:
    """Cut a slice at the block boundaries: whole blocks are cloned, and what ends both files."""
    if (at - part.offset) % block:
        yield Copy(at, part)
        return
    head = min(-part.offset % block, part.length)
    body = part.length - head
    # The kernel takes a partial block only where source and target both end with it.
    if not (last and part.offset + part.length == part.source.size):
        body -= body % block
    tail = part.length - head - body
    if head:
        yield Copy(at, part.part(0, head))
    if body:
        yield Clone(at + head, part.part(head, body))
    if tail:
        yield Copy(at + head + body, part.part(head + body, tail))
