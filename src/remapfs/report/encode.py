"""The families as the page's data: every tensor's name and outcome in a few kilobytes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import groupby
from string import ascii_letters
from typing import TYPE_CHECKING, Any

from remapfs.plan.patterns import split
from remapfs.report.families import State, ranges
from remapfs.report.marks import MARKS
from remapfs.report.text import visible

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from remapfs.report.families import Family, Template
    from remapfs.report.places import Place

_BUDGET = 600_000
_REASONS = len(ascii_letters) - len(MARKS)
_ABSENT = "."
_SEVERAL = "for several reasons: see the problems"


@dataclass(frozen=True, slots=True)
class Encoded:
    """JSON that is safe inside <script>, and how many tensors and families did not fit into it."""

    text: str
    tensors_left_out: int
    families_left_out: int


def encode(found: Sequence[Family], placed: Sequence[Place], budget: int = _BUDGET) -> Encoded:
    """Write families as JSON of about `budget` characters at most; what fails and what is many goes first.

    States are letters, each with the number of its neighbours that are alike; "." stands for no tensor.
    """
    letters, states = _letters(found)
    written = [
        (family, _json(_family(family, place, letters))) for family, place in zip(found, placed, strict=True)
    ]
    chosen = _within(written, budget)
    left = [family for at, (family, _) in enumerate(written) if at not in chosen]
    head = _json(
        {
            "marks": [{**mark._asdict(), "many": mark.many} for mark in MARKS.values()],
            "states": [{"mark": state.mark, "reason": visible(state.reason)} for state in states],
        }
    )
    body = ",".join(text for at, (_, text) in enumerate(written) if at in chosen)
    return Encoded(f'{head[:-1]},"families":[{body}]}}', sum(family.tensors for family in left), len(left))


def _within(written: Sequence[tuple[Family, str]], budget: int) -> set[int]:
    order = sorted(
        range(len(written)),
        key=lambda at: (not _fails(written[at][0]), -written[at][0].tensors, at),
    )
    chosen: set[int] = set()
    for at in order:
        budget -= len(written[at][1]) + 1
        if budget < 0:
            break
        chosen.add(at)
    return chosen


def _fails(family: Family) -> bool:
    return any(state is not None and MARKS[state.mark].fails for state in set(family.states))


def _letters(found: Sequence[Family]) -> tuple[dict[State | None, str], list[State]]:
    """Give every state a letter; reasons that differ in numbers share one, and so do too many."""
    states: list[State] = []
    letters: dict[State | None, str] = {None: _ABSENT}
    known: dict[tuple[str, tuple[str, ...]], str] = {}
    different = dict.fromkeys(state for family in found for state in family.states if state is not None)
    for state in different:
        key = state.mark, split(state.reason)[0]
        if key not in known and len(known) >= _REASONS:
            state_for_rest = State(state.mark, _SEVERAL)
            key = state.mark, (_SEVERAL,)
        else:
            state_for_rest = state
        if key not in known:
            known[key] = ascii_letters[len(states)]
            states.append(state_for_rest)
        letters[state] = known[key]
    return letters, states


def _family(family: Family, place: Place, letters: dict[State | None, str]) -> dict[str, Any]:
    return {
        "source": _template(family.source),
        "name": _template(family.name),
        "axes": [ranges(axis) for axis in family.axes],
        "states": _runs(letters[state] for state in family.states),
        "bytes": family.length,
        "made": f"{family.dtype} [{', '.join(map(str, family.shape))}]" if family.shape is not None else "",
        "place": [each if isinstance(each, int) or each is None else visible(each) for each in place],
    }


def _template(template: Template | None) -> list[str | int] | None:
    return template and [piece if isinstance(piece, int) else visible(piece) for piece in template]  # type: ignore[return-value]


def _runs(letters: Iterable[str]) -> str:
    runs = ((letter, sum(1 for _ in run)) for letter, run in groupby(letters))
    return "".join(letter if length == 1 else f"{letter}{length}" for letter, length in runs)


def _json(value: dict[str, Any]) -> str:
    """Write JSON that cannot end the <script> it stands in, nor begin a comment there."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
