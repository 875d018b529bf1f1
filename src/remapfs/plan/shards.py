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
    old = [tensor.name for tensor in header.tensors]
    metadata = rename_metadata(header.metadata, old, planned.names)
    literal = Literal(encode_header(metadata, tensors, header.length, file.path))
    return VirtualFile.of(file.path, [literal, *slices], file.attributes)


def presented_size(planned: PlannedShard) -> int:
    """Add up the bytes of all presented tensors, aliases included."""
    return sum(tensor.length for tensor, _ in planned.presented())
