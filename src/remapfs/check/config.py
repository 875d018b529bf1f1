"""Whether the quantisation config says of every module what its tensors say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from remapfs.check.forms import WEIGHT, weight_of
from remapfs.check.model import Answer, Outcome
from remapfs.checkpoint.quantization import unquantised_modules
from remapfs.plan.modules import Selector
from remapfs.plan.patterns import patterns
from remapfs.words import some

if TYPE_CHECKING:
    from collections.abc import Mapping

    from remapfs.plan import Plan

_SHOWN = 5
_MATRIX = 2


def compare_config(plan: Plan, answer: Answer, configs: Mapping[str, Any]) -> Answer:
    """Judge anew what the first config that speaks of quantisation contradicts.

    `configs` are the decoded config files as presented, by path, in the order in which the reader looks at
    them. A quantised tensor of a module that is listed as not quantised cannot load; the opposite, a plain
    matrix that is not listed, is only noted, for a reader may know by itself that it is no quantised layer.
    """
    found = ((path, unquantised_modules(document)) for path, document in configs.items())
    path, listed = next(((path, names) for path, names in found if names is not None), ("", None))
    names = [each.name for each in answer.judged if each.name is not None]
    known = frozenset(names)
    quantised = {weight for name in names if (weight := weight_of(name, known)) is not None}
    if listed is None or not quantised:
        return answer
    selector = Selector(names)
    excluded = {names[at] for pattern in listed for at in selector.select(pattern)}
    reason = f"quantised, and {path} lists its module as not quantised"
    judged = tuple(
        each._replace(outcome=Outcome.DIFFERENT, reason=reason)
        if each.outcome is Outcome.LOADS
        and each.name in excluded
        and (each.name in quantised or weight_of(each.name, known) in quantised)
        else each
        for each in answer.judged
    )
    return Answer(answer.against, judged, (*answer.notes, *_plain(plan, quantised | excluded, path)))


def _plain(plan: Plan, settled: set[str], path: str) -> list[str]:
    matrices = [
        name
        for planned in plan.shards
        for tensor, name in planned.presented()
        if len(tensor.shape) == _MATRIX
        and name.endswith(WEIGHT)
        and name not in settled
        and "embed" not in name
    ]
    if not matrices:
        return []
    listed = some([group.text() for group in patterns(matrices)], _SHOWN)
    return [f"{len(matrices):,} matrices are not quantised, and not listed as such in {path}: {listed}"]
