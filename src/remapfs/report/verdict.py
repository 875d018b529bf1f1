"""The verdict in plain words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from remapfs.check.model import Outcome
from remapfs.report.marks import ALIASED, MARKS, RENAMED, UNTOUCHED
from remapfs.report.text import share, size
from remapfs.words import count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from remapfs.check import Answer
    from remapfs.report.items import Item
    from remapfs.report.marks import Mark


@dataclass(frozen=True, slots=True)
class Tally:
    """How many tensors and bytes have one mark."""

    mark: Mark
    tensors: int
    length: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """What stands at the top of the page: `tone` is "good", "bad" or "plan"; `lines` are sentences."""

    tone: str
    title: str
    lines: tuple[str, ...]


def tally(found: Sequence[Item]) -> list[Tally]:
    """Count tensors by mark, the worst first."""
    numbers: dict[str, list[int]] = {}
    for item in found:
        own = numbers.setdefault(item.mark, [0, 0])
        own[0] += 1
        own[1] += item.length
    return [Tally(MARKS[key], *numbers[key]) for key in MARKS if key in numbers]


def verdict(tallies: Sequence[Tally], answer: Answer | None) -> Verdict:
    """Say whether it will load, and how much of it; of a plan alone, what it does to the names."""
    if answer is None:
        return _plan(tallies)
    loaded = [each for each in tallies if each.mark.key == Outcome.LOADS]
    given = [
        each for each in tallies if each.mark.key not in (Outcome.MISSING, Outcome.DROPPED, Outcome.UNUSED)
    ]
    tensors, of = (sum(each.tensors for each in some) for some in (loaded, given))
    length, of_length = (sum(each.length for each in some) for some in (loaded, given))
    amount = (
        f"{tensors:,} of {count(of, 'presented tensor')} ({share(tensors, of)}) and {size(length)} of "
        f"{size(of_length)} ({share(length, of_length)}) load"
    )
    failing = [each for each in tallies if each.mark.fails]
    if not failing:
        return Verdict("good", "It will load", (f"{amount}; none is missing.",))
    stops = any(each.mark.key in (Outcome.REFUSED, Outcome.MISSING) for each in failing)
    title = "It will not load" if stops else "It will not load with every value in its place"
    words = ", ".join(f"{each.tensors:,} {each.mark.label}" for each in failing)
    return Verdict("bad", title, (f"{amount}; {words}.",))


def _plan(tallies: Sequence[Tally]) -> Verdict:
    tensors = {each.mark.key: each.tensors for each in tallies}
    presented = sum(tensors.get(key, 0) for key in (RENAMED, UNTOUCHED, ALIASED))
    length = sum(each.length for each in tallies if each.mark.key != Outcome.DROPPED)
    renamed = tensors.get(RENAMED, 0)
    if renamed and renamed == presented:
        title = f"{'All ' if renamed > 1 else ''}{count(renamed, 'tensor')} renamed"
    elif renamed:
        title = f"{renamed:,} of {count(presented, 'tensor')} renamed"
    else:
        title = "No tensor is renamed"
    beside = [f"{tensors[key]:,} {key}" for key in (UNTOUCHED, ALIASED, Outcome.DROPPED) if key in tensors]
    amount = f"{count(presented, 'tensor')} and {size(length)} would be presented"
    return Verdict(
        "plan",
        title,
        (
            f"{amount}{': ' + ', '.join(beside) if beside else ''}.",
            "This is a plan: whether it loads has not been asked. remapfs check asks that.",
        ),
    )
