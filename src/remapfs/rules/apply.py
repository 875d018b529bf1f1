"""Rules applied to names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from remapfs.rules.blind import SLOT, is_blind
from remapfs.rules.model import Alias, Drop, Rename
from remapfs.rules.steps import Renaming, apply_each

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from remapfs.rules.model import Step


@dataclass(slots=True)
class _Kind:
    """What becomes of all names that differ only in their slots."""

    new: Callable[..., str] | None
    aliases: tuple[Callable[..., str], ...]
    hits: tuple[int, ...]
    members: int = 0


def apply_steps(names: Sequence[str], steps: Sequence[Step]) -> Renaming:
    """Apply the steps in order, each to the result of the one before.

    The result is that of `apply_each`; where every step is blind to slots, one name of each kind is worked
    out and the others follow.
    """
    return (_apply_by_kind(names, steps) if all(map(is_blind, steps)) else None) or apply_each(names, steps)


def _apply_by_kind(names: Sequence[str], steps: Sequence[Step]) -> Renaming | None:
    kinds: dict[tuple[str, ...], _Kind] = {}
    results: list[str | None] = []
    aliases: list[tuple[int, str]] = []
    for position, name in enumerate(names):
        parts = SLOT.split(name)
        key, slots = tuple(parts[::2]), parts[1::2]
        kind = kinds.get(key)
        if kind is None:
            kind = _work_out(key, steps)
            if kind is None:
                return None
            kinds[key] = kind
        kind.members += 1
        results.append(kind.new and kind.new(*slots))
        if kind.aliases:
            aliases += [(position, alias(*slots)) for alias in kind.aliases]
    hits = [0] * len(steps)
    for kind in kinds.values():
        for number, hit in enumerate(kind.hits):
            hits[number] += hit * kind.members
    return Renaming(tuple(results), tuple(aliases), tuple(hits))


def _work_out(key: tuple[str, ...], steps: Sequence[Step]) -> _Kind | None:
    """Run the steps on a stand-in whose slots hold numbers that occur nowhere else.

    Gives up where a slot does not stay a whole segment, for later steps might then see its digits.
    """
    marks = [f"{70_000_001 + slot}" for slot in range(len(key) - 1)]
    texts = (*key, *(_written(step) for step in steps))
    if any(mark in text for mark in marks for text in texts):
        return None
    name = key[0] + "".join(f".{mark}{part}" for mark, part in zip(marks, key[1:], strict=True))
    current: list[str] = [name]
    kept, hits = True, []
    for step in steps:
        done = apply_each(current, (step,))
        kept = kept and done.names[0] is not None
        current = [new for new in done.names if new is not None] + [other for _, other in done.aliases]
        hits.append(done.hits[0])
        if not all(_whole(new, marks) for new in current):
            return None
    makers = [_maker(new, marks) for new in current]
    return _Kind(makers[0] if kept else None, tuple(makers[kept:]), tuple(hits))


def _written(step: Step) -> str:
    match step:
        case Rename(_, to):
            return to
        case Alias(_, other):
            return other
        case Drop():
            return ""


def _whole(name: str, marks: Sequence[str]) -> bool:
    segments = name.split(".")
    return all(name.count(mark) == segments.count(mark) for mark in marks)


def _maker(name: str, marks: Sequence[str]) -> Callable[..., str]:
    pattern = name.replace("{", "{{").replace("}", "}}")
    for slot, mark in enumerate(marks):
        pattern = pattern.replace(mark, f"{{{slot}}}")
    return pattern.format
