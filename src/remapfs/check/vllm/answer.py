"""What the loader's process reports, as an answer about the checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING

from remapfs.check.model import Answer, Judged, Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from remapfs.check.vllm.job import Presented
    from remapfs.check.vllm.process import Report
    from remapfs.plan import Plan

_CONFIG = "config.json"


def to_answer(plan: Plan, tensors: Sequence[Presented], report: Report) -> Answer:
    """Give every tensor its outcome: those presented, then those missing, then those dropped."""
    found = {number: (Outcome(outcome), reason) for number, outcome, reason in report.outcomes}
    judged = []
    for number, (tensor, name) in enumerate(tensors):
        outcome, reason = found.get(number, (Outcome.LOADS, ""))
        judged.append(Judged(tensor.name, name, outcome, reason, tensor.end - tensor.begin))
    judged += [Judged(None, name, Outcome.MISSING, reason, 0) for name, reason in report.missing]
    judged += _dropped(plan)
    notes = list(report.notes)
    if report.config_refused:
        judged.append(Judged(None, _CONFIG, Outcome.REFUSED, report.config_refused, 0))
        notes.append(
            f"vLLM refuses {_CONFIG} as it is presented; the names were judged with the one that the preset"
            " of this model type makes of it"
        )
    if report.after:
        judged.append(Judged(None, "(after the last tensor)", Outcome.REFUSED, report.after, 0))
    return Answer(report.against, tuple(judged), tuple(notes))


def _dropped(plan: Plan) -> Iterator[Judged]:
    for planned in plan.shards:
        for tensor, name in zip(planned.shard.header.tensors, planned.names, strict=True):
            if name is None:
                yield Judged(tensor.name, None, Outcome.DROPPED, "", tensor.end - tensor.begin)
