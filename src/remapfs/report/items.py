"""Every tensor with what becomes of it, from a plan alone or from an answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from remapfs.check.model import Outcome
from remapfs.check.reference import component
from remapfs.report.marks import ALIASED, RENAMED, UNTOUCHED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from remapfs.check import Answer
    from remapfs.plan import Plan


class Item(NamedTuple):
    """One tensor: its name on disk, the presented or wanted one, its mark's key, and what it is made of.

    `source` is None for a missing tensor and `name` for a dropped one. `length` is in bytes, 0 where it is
    not known; then `dtype` is "" and `shape` None too.
    """

    source: str | None
    name: str | None
    mark: str
    reason: str
    length: int
    dtype: str
    shape: tuple[int, ...] | None


def items(plan: Plan, answer: Answer | None) -> Iterator[Item]:
    """Yield the tensors of a plan, or those of an answer about it."""
    return _planned(plan) if answer is None else _judged(plan, answer)


def _planned(plan: Plan) -> Iterator[Item]:
    for planned in plan.shards:
        before = component(planned.shard)
        tensors = planned.shard.header.tensors
        for tensor, new in zip(tensors, planned.names, strict=True):
            source, made = before + tensor.name, (tensor.length, tensor.dtype, tensor.shape)
            if new is None:
                yield Item(source, None, Outcome.DROPPED, "", *made)
            elif new == tensor.name:
                yield Item(source, source, UNTOUCHED, "", *made)
            else:
                yield Item(source, before + new, RENAMED, "", *made)
        for position, further in planned.aliases:
            tensor = tensors[position]
            made = tensor.length, tensor.dtype, tensor.shape
            yield Item(before + tensor.name, before + further, ALIASED, "", *made)


def _judged(plan: Plan, answer: Answer) -> Iterator[Item]:
    made = {
        (tensor.name, tensor.length): (tensor.dtype, tensor.shape)
        for planned in plan.shards
        for tensor in planned.shard.header.tensors
    }
    for source, name, outcome, reason, length in answer.judged:
        dtype, shape = made.get((source or "", length), ("", None))
        yield Item(source, name, outcome, reason, length, dtype, shape)
