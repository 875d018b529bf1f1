"""A shard under new names: one header, and slices of the file on disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

from remapfs.checkpoint.header import Tensor, encode_header
from remapfs.plan.extents import Literal, Slice, VirtualFile
from remapfs.plan.metadata import rename_metadata

if TYPE_CHECKING:
    from remapfs.plan.model import PlannedShard


def present_shard(planned: PlannedShard) -> VirtualFile:
    """Lay out a shard: tensors in the order of the file, dropped ones closed up, aliases last."""
    file, header = planned.shard.file, planned.shard.header
    if not planned.rewritten:
        return VirtualFile.of(file.path, [Slice(file.source, 0, file.source.size)], file.attributes)
    old = [tensor[0] for tensor in header.tensors]
    metadata = rename_metadata(header.metadata, old, planned.names)
    tensors, slices = _in_place(planned) or _closed_up(planned)
    literal = Literal(encode_header(metadata, tensors, header.length, file.path))
    return VirtualFile.of(file.path, [literal, *slices], file.attributes)


def _in_place(planned: PlannedShard) -> tuple[list[Tensor], list[Slice]] | None:
    """Give every tensor its new name and nothing else, where all stay and lie side by side."""
    header, names = planned.shard.header, planned.names
    if not planned.shard.exact or planned.aliases or not header.tensors or None in names:
        return None
    make = tuple.__new__
    tensors = [
        make(Tensor, (name, dtype, shape, begin, end))
        for name, (_, dtype, shape, begin, end) in zip(names, header.tensors, strict=True)
    ]
    return tensors, [Slice(planned.shard.file.source, header.data_start, tensors[-1].end)]


def _closed_up(planned: PlannedShard) -> tuple[list[Tensor], list[Slice]]:
    """Leave dropped tensors out, and say where the bytes of the others lie."""
    file, header = planned.shard.file, planned.shard.header
    tensors: list[Tensor] = []
    slices: list[Slice] = []
    end = 0
    run_start = run_end = header.data_start
    make = tuple.__new__
    for tensor, name in planned.presented():
        length = tensor.end - tensor.begin
        tensors.append(make(Tensor, (name, tensor.dtype, tensor.shape, end, end + length)))
        end += length
        begin = header.data_start + tensor.begin
        if begin != run_end and length:
            slices.append(Slice(file.source, run_start, run_end - run_start))
            run_start = run_end = begin
        run_end += length
    slices.append(Slice(file.source, run_start, run_end - run_start))
    return tensors, slices


def presented_size(planned: PlannedShard) -> int:
    """Add up the bytes of all presented tensors, aliases included."""
    return sum(tensor.length for tensor, _ in planned.presented())
