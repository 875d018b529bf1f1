"""What each part of a file must be, from the file's own header and the source's."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING

from remapfs.checkpoint.header import LENGTH_BYTES, MAX_HEADER, Tensor, parse_header
from remapfs.errors import RemapError
from remapfs.plan.extents import Extent, Slice
from remapfs.verify.model import Difference
from remapfs.words import some

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from remapfs.plan.extents import VirtualFile
    from remapfs.plan.model import PlannedShard

_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Part:
    """From byte `start` on, a file must have the bytes of `extent`."""

    start: int
    extent: Extent


@dataclass(frozen=True, slots=True)
class Expected:
    """All parts of a file in its order, and its tensors as (start, end, name) in bytes of the file."""

    parts: tuple[Part, ...]
    tensors: tuple[tuple[int, int, str], ...] = ()

    def tensor_at(self, offset: int) -> tuple[str, int] | None:
        """Find the tensor that a byte of the file lies in, and the byte in the tensor."""
        position = bisect_right(self.tensors, offset, key=itemgetter(0)) - 1
        while position >= 0:
            start, end, name = self.tensors[position]
            if start <= offset < end:
                return name, offset - start
            if start != end:
                return None
            position -= 1
        return None


def expect_file(file: VirtualFile) -> Expected:
    """Expect what the plan presents, for a file that is no shard."""
    return Expected(tuple(Part(at, extent) for extent, at in zip(file.extents, file.starts, strict=True)))


def expect_shard(
    planned: PlannedShard, file: VirtualFile, size: int, read: Callable[[int, int], bytes]
) -> Expected | Difference:
    """Read a shard's header with `read(offset, size)`, and pair each of its tensors with the source's.

    The places of the bytes are those that the two headers give; the plan gives no more than the names, and
    the bytes of the header itself.
    """
    path = file.path
    length = int.from_bytes(read(0, LENGTH_BYTES), "little")
    start = LENGTH_BYTES + length
    if start > size or length > MAX_HEADER:
        return Difference(path, f"its header would have {length:,} bytes", offset=0)
    raw = read(LENGTH_BYTES, length)
    if len(raw) != length:
        return Difference(path, f"it gives {len(raw):,} bytes of its header of {length:,}")
    try:
        header = parse_header(raw, path, size - start)
    except RemapError as error:
        return Difference(path, error.message.removeprefix(f"{path}: ").removeprefix(f"{path} "))
    wanted = {name: tensor for tensor, name in planned.presented()}
    different = _compare_tables(path, {tensor.name: tensor for tensor in header.tensors}, wanted)
    if different is not None:
        return different
    own = planned.shard
    parts = [*_head(file, start)]
    tensors = []
    for tensor in header.tensors:
        offset = own.header.data_start + wanted[tensor.name].begin
        tensors.append((start + tensor.begin, start + tensor.end, tensor.name))
        if tensor.length:
            parts.append(Part(start + tensor.begin, Slice(own.file.source, offset, tensor.length)))
    return Expected(tuple(_joined(parts)), tuple(tensors))


def _head(file: VirtualFile, size: int) -> Iterator[Part]:
    """Expect the header byte for byte: its metadata and padding belong to no tensor."""
    at = 0
    for extent in file.pieces(0, size):
        yield Part(at, extent)
        at += extent.length


def _compare_tables(path: str, found: dict[str, Tensor], wanted: dict[str, Tensor]) -> Difference | None:
    missing = sorted(wanted.keys() - found.keys())
    if missing:
        return Difference(path, f"it lacks {some([repr(name) for name in missing], _SHOWN)}", missing[0])
    more = sorted(found.keys() - wanted.keys())
    if more:
        return Difference(
            path, f"it has {some([repr(name) for name in more], _SHOWN)}, which the plan does not", more[0]
        )
    for name, tensor in found.items():
        other = wanted[name]
        if (tensor.dtype, tensor.shape) != (other.dtype, other.shape):
            text = (
                f"it is {tensor.dtype} {list(tensor.shape)}, in the source {other.dtype} {list(other.shape)}"
            )
            return Difference(path, text, name)
    return None


def _joined(parts: Iterable[Part]) -> Iterator[Part]:
    """Make one of slices that follow each other on both sides: most tensors are small."""
    last: Part | None = None
    for part in parts:
        if (
            last is not None
            and isinstance(last.extent, Slice)
            and isinstance(part.extent, Slice)
            and last.extent.source == part.extent.source
            and last.start + last.extent.length == part.start
            and last.extent.offset + last.extent.length == part.extent.offset
        ):
            joined = Slice(last.extent.source, last.extent.offset, last.extent.length + part.extent.length)
            last = Part(last.start, joined)
            continue
        if last is not None:
            yield last
        last = part
    if last is not None:
        yield last
