"""What a plan presents against what a reference wants."""

from __future__ import annotations

from typing import TYPE_CHECKING

from remapfs.check.forms import FLOATS, PACKED, holds, weight_of
from remapfs.check.model import Answer, Judged, Outcome
from remapfs.check.reference import component
from remapfs.words import count

if TYPE_CHECKING:
    from collections.abc import Iterator

    from remapfs.check.reference import Reference, Wanted
    from remapfs.checkpoint.header import Tensor
    from remapfs.plan import Plan

_PACKED_WEIGHT = ".weight_packed"


def compare(plan: Plan, reference: Reference) -> Answer:
    """Judge every presented tensor, and list what is wanted and not presented.

    Where the reference is not quantised, a quantised weight with its scales counts as the plain one that is
    wanted, and a note says so. A plain float in another float dtype loads: readers convert.
    """
    plain = not any(weight_of(name, reference.tensors) for name in reference.tensors)
    judged = list(_judge(plan, reference, plain=plain))
    given = {each.name for each in judged}
    if plain:
        given |= {
            weight_of(name, reference.tensors) for name in given if name and name.endswith(_PACKED_WEIGHT)
        }
    judged += [Judged(None, name, Outcome.MISSING, "", 0) for name in reference.tensors if name not in given]
    return Answer(reference.what, tuple(judged), (*reference.notes, *_notes(judged, reference)))


def _judge(plan: Plan, reference: Reference, *, plain: bool) -> Iterator[Judged]:
    for planned in plan.shards:
        before = component(planned.shard)
        for tensor, new in zip(planned.shard.header.tensors, planned.names, strict=True):
            if new is None:
                yield Judged(tensor.name, None, Outcome.DROPPED, "a rule drops it", tensor.length)
        for tensor, presented in planned.presented():
            name = before + presented
            wanted = reference.tensors.get(name)
            if wanted is not None:
                outcome, reason = _wanted(tensor, wanted, plain=plain)
            elif plain and weight_of(name, reference.tensors):
                outcome, reason = Outcome.LOADS, ""
            else:
                outcome, reason = Outcome.UNEXPECTED, ""
            yield Judged(tensor.name, name, outcome, reason, tensor.length)


def _wanted(tensor: Tensor, wanted: Wanted, *, plain: bool) -> tuple[Outcome, str]:
    if wanted.dtype is None or wanted == (tensor.dtype, tensor.shape) or (plain and holds(tensor, wanted)):
        return Outcome.LOADS, ""
    if tensor.shape == wanted.shape and tensor.dtype in FLOATS and wanted.dtype in FLOATS:
        return Outcome.LOADS, f"{tensor.dtype} here, {wanted.dtype} in the reference"
    packed = tensor.dtype in PACKED, wanted.dtype in PACKED
    what = {(True, False): "quantised here: ", (False, True): "not quantised here: "}.get(packed, "")
    here, there = f"{tensor.dtype} {list(tensor.shape)}", f"{wanted.dtype} {list(wanted.shape or ())}"
    return Outcome.DIFFERENT, f"{what}{here} here, {there} wanted"


def _notes(judged: list[Judged], reference: Reference) -> Iterator[str]:
    loaded = [each for each in judged if each.outcome is Outcome.LOADS]
    converted = sum(1 for each in loaded if each.reason)
    if converted:
        yield f"{count(converted, 'tensor')} in another float dtype than in the reference: readers convert"
    parts = sum(1 for each in loaded if each.name not in reference.tensors)
    if parts:
        yield (
            f"the reference is not quantised: {count(parts, 'scale')} and the weights they belong to were "
            "taken for the plain weights that it wants"
        )
