"""What a virtual file is made of: literal bytes, and slices of files that stay where they are."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from remapfs.checkpoint.source import Attributes, Source


@dataclass(frozen=True, slots=True)
class Literal:
    """Bytes that remapfs wrote itself: a header, an index, a rewritten config."""

    data: bytes

    @property
    def length(self) -> int:
        """The number of bytes."""
        return len(self.data)

    def part(self, start: int, length: int) -> Literal:
        """Take `length` bytes from `start` on."""
        return self if start == 0 and length == len(self.data) else Literal(self.data[start : start + length])


@dataclass(frozen=True, slots=True)
class Slice:
    """`length` bytes from `offset` on of a file on disk."""

    source: Source
    offset: int
    length: int

    def part(self, start: int, length: int) -> Slice:
        """Take `length` bytes from `start` on."""
        return Slice(self.source, self.offset + start, length)


Extent = Literal | Slice


@dataclass(frozen=True, slots=True)
class VirtualFile:
    """A regular file as it will be seen: `path` relative to the mount, its extents in order, its attributes.

    Build one with `VirtualFile.of`, which brings the extents into the one form that is allowed:
    none is empty, and two slices that continue each other in the same source are one.
    """

    path: str
    extents: tuple[Extent, ...]
    attributes: Attributes
    starts: tuple[int, ...] = field(init=False, repr=False, compare=False)
    size: int = field(init=False, compare=False)

    def __post_init__(self) -> None:
        """Check the form and compute where each extent starts."""
        for extent in self.extents:
            if extent.length <= 0:
                raise ValueError(f"{self.path}: an empty extent")
        for before, after in zip(self.extents, self.extents[1:], strict=False):
            if _continues(before, after):
                raise ValueError(f"{self.path}: two slices that are one")
        ends = tuple(accumulate(extent.length for extent in self.extents))
        object.__setattr__(self, "starts", (0, *ends[:-1]) if ends else ())
        object.__setattr__(self, "size", ends[-1] if ends else 0)

    @classmethod
    def of(cls, path: str, extents: Iterable[Extent], attributes: Attributes) -> VirtualFile:
        """Build a file from any extents: empty ones are left out, continuing slices are merged."""
        merged: list[Extent] = []
        for extent in extents:
            if not extent.length:
                continue
            before = merged[-1] if merged else None
            if isinstance(before, Slice) and isinstance(extent, Slice) and _continues(before, extent):
                merged[-1] = Slice(before.source, before.offset, before.length + extent.length)
            else:
                merged.append(extent)
        return cls(path, tuple(merged), attributes)

    def pieces(self, offset: int, size: int) -> Iterator[Extent]:
        """Yield the extents, cut to fit, that cover `size` bytes from `offset` on, up to the file's end."""
        end = min(offset + size, self.size)
        if offset >= end:
            return
        index = bisect_right(self.starts, offset) - 1
        while offset < end:
            extent, start = self.extents[index], offset - self.starts[index]
            length = min(extent.length - start, end - offset)
            yield extent.part(start, length)
            offset += length
            index += 1


def _continues(before: Extent, after: Extent) -> bool:
    return (
        isinstance(before, Slice)
        and isinstance(after, Slice)
        and before.source == after.source
        and before.offset + before.length == after.offset
    )
