"""Many names as few patterns, for messages and summaries."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_DIGITS = re.compile(r"(\d+)")
_FEW = 6


@dataclass(slots=True)
class Pattern:
    """Names that differ only in their numbers."""

    parts: tuple[str, ...]
    numbers: list[set[str]] = field(default_factory=list)
    count: int = 0
    length: int = 0

    def add(self, numbers: Iterable[str], length: int = 0) -> None:
        """Count one more name, given its numbers, and the bytes of its tensor."""
        for seen, number in zip(self.numbers, numbers, strict=True):
            seen.add(number)
        self.count += 1
        self.length += length

    def text(self, *, ranges: bool = True) -> str:
        """Write the pattern: a number that varies as its range, or as {} without `ranges`."""
        written = [self.parts[0]]
        for seen, part in zip(self.numbers, self.parts[1:], strict=True):
            written += [_number(seen, ranges=ranges), part]
        return "".join(written)


def split(name: str) -> tuple[tuple[str, ...], list[str]]:
    """Split a name into the text around its numbers, and the numbers."""
    pieces = _DIGITS.split(name)
    return tuple(pieces[::2]), pieces[1::2]


def patterns(names: Iterable[str]) -> list[Pattern]:
    """Group names, in the order in which each pattern is first met."""
    groups: dict[tuple[str, ...], Pattern] = {}
    for name in names:
        parts, numbers = split(name)
        group = groups.get(parts)
        if group is None:
            group = groups[parts] = Pattern(parts, [set() for _ in numbers])
        group.add(numbers)
    return list(groups.values())


def by_module(names: Iterable[str]) -> list[tuple[str, int]]:
    """Describe names by the pattern of their module with all its leaves, each with the number of names."""
    leaves: dict[str, list[str]] = {}
    counts: dict[str, int] = {}
    for group in patterns(names):
        module, _, leaf = group.text().rpartition(".")
        leaves.setdefault(module, []).append(leaf)
        counts[module] = counts.get(module, 0) + group.count
    return [
        (f"{module}.{'{' + ', '.join(own) + '}' if len(own) > 1 else own[0]}".lstrip("."), counts[module])
        for module, own in ((module, sorted(own)) for module, own in leaves.items())
    ]


def _number(seen: set[str], *, ranges: bool) -> str:
    if len(seen) == 1:
        return next(iter(seen))
    if not ranges:
        return "{}"
    # 7 and 07 are one number: by their text too, or their order would not be the same in every run.
    values = sorted(seen, key=lambda digits: (int(digits), digits))
    low, high = values[0], values[-1]
    if len(set(map(int, values))) == len(values) == int(high) - int(low) + 1:
        return f"{{{low}-{high}}}"
    if len(values) <= _FEW:
        return "{" + ",".join(values) + "}"
    return f"{{{low}-{high}: {len(values)} of them}}"
