"""What unexpected names should be called, and the rule that gives them that name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from remapfs.check.model import Outcome
from remapfs.check.problems import Advice
from remapfs.check.reference import component
from remapfs.suggest import Named, fixes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from remapfs.check.model import Judged
    from remapfs.check.reference import Wanted
    from remapfs.plan import Plan


def advise(plan: Plan, judged: Iterable[Judged], wanted: Mapping[str, Wanted]) -> dict[str, Advice]:
    """Give unexpected names the pattern of the wanted names that they should be, and a rule for it."""
    unexpected, missing = set(), []
    for each in judged:
        if each.outcome is Outcome.UNEXPECTED:
            unexpected.add(each.name)
        elif each.outcome is Outcome.MISSING and each.name is not None:
            missing.append(Named(each.name, *wanted[each.name]))
    ours = [
        Named(before + name, tensor.dtype, tensor.shape)
        for planned in plan.shards
        for before in (component(planned.shard),)
        for tensor, name in planned.presented()
        if before + name in unexpected
    ]
    found = fixes(ours, missing) if ours else []
    return {name: Advice(fix.nearest, fix.rule) for fix in found for name in fix.names}
