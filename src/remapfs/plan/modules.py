"""Module patterns under new names: only where the selection is provably the same.

A pattern selects a tensor when it matches the tensor's name or that of a module above it; `*`, `?` and
`[…]` are wildcards that also match dots. A new pattern is used only if, among the new names, it selects
exactly the tensors that the old one selected among the old names.
"""

from __future__ import annotations

import fnmatch
import re
from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING

from remapfs.rules.blind import SLOT

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_WILD = re.compile(r"[*?\[]")
_REGEX = "re:"
_LAST = "\U0010ffff"


@dataclass(frozen=True, slots=True)
class Unchanged:
    """The pattern selects what it should as it stands."""


@dataclass(frozen=True, slots=True)
class Renamed:
    """One pattern, or an expansion into several, that selects the same tensors."""

    patterns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Undecided:
    """Nothing can be proved, so the pattern stays as it is; `why` is for the findings."""

    why: str


Outcome = Unchanged | Renamed | Undecided


class Selector:
    """Names in order, for selecting by pattern; results are positions in the list that was given."""

    def __init__(self, names: Sequence[str | None]) -> None:
        present = [position for position, name in enumerate(names) if name is not None]
        self._sorted = sorted(name for name in names if name is not None)
        self._order = sorted(present, key=names.__getitem__)  # type: ignore[arg-type]  # None is left out

    def select(self, pattern: str) -> set[int]:
        """Select by a name or by a pattern with wildcards."""
        wild = _WILD.search(pattern)
        if not wild:
            return self._equal(pattern) | self._starting(pattern + ".")
        head = pattern[: wild.start()]
        if pattern[wild.start() :] == "*":
            return self._starting(head)
        regex = re.compile(f"{fnmatch.translate(pattern)}|{fnmatch.translate(pattern + '.*')}")
        low, high = self._range(head)
        return {self._order[i] for i in range(low, high) if regex.match(self._sorted[i])}

    def _equal(self, name: str) -> set[int]:
        low = bisect_left(self._sorted, name)
        high = bisect_left(self._sorted, name + "\0")
        return set(self._order[low:high])

    def _starting(self, head: str) -> set[int]:
        return set(self._order[slice(*self._range(head))])

    def _range(self, head: str) -> tuple[int, int]:
        return bisect_left(self._sorted, head), bisect_left(self._sorted, head + _LAST)


class ModuleNames:
    """The tensors of a checkpoint under their old and new names, for translating module patterns.

    `old` and `new` are parallel, None where a tensor was dropped; `aliases` are (position, further name).
    """

    def __init__(
        self, old: Sequence[str], new: Sequence[str | None], aliases: Sequence[tuple[int, str]] = ()
    ) -> None:
        self._old_names = old
        self._names = [*new, *(name for _, name in aliases)]
        self._aliases: dict[int, list[int]] = {}
        for entry, (position, _) in enumerate(aliases, len(new)):
            self._aliases.setdefault(position, []).append(entry)
        self._old = Selector(old)
        self._new = Selector(self._names)

    def translate(self, pattern: str) -> Outcome:
        """Find the pattern, or the fewest names, with the same selection among the new names."""
        if pattern.startswith(_REGEX):
            return Undecided("is a regular expression")
        selected = self._old.select(pattern)
        if not selected:
            return Undecided("selects no tensor")
        image = {entry for position in selected for entry in self._entries(position)}
        if not image:
            return Undecided("selects only dropped tensors")
        if self._new.select(pattern) == image:
            return Unchanged()
        for candidate in self._candidates(pattern, selected, image):
            if self._new.select(candidate) == image:
                return Renamed((candidate,))
        modules = self._modules(image)
        return Renamed(tuple(modules)) if modules else Undecided("selects what no name selects alone")

    def _candidates(self, pattern: str, selected: set[int], image: set[int]) -> Iterator[str]:
        names = [self._name(entry) for entry in image]
        literal = pattern.removesuffix("*")
        star = pattern[len(literal) :]
        if _WILD.search(literal):
            general = [SLOT.sub(".*", name) for name in names]
            heads = ["*", ""] if pattern.startswith("*") else [""]
            stars = ["*"] if star else ["", "*"]
            for stem in _stems(general):
                cut = [stem[stem.index("*") + 1 :] if head and "*" in stem else stem for head in heads]
                yield from (
                    head + text + end for head, text in zip(heads, cut, strict=True) for end in stars if text
                )
            return
        for stem in self._same_tail(literal, selected):
            yield stem + star
        for stem in _stems(names):
            yield stem + star

    def _same_tail(self, module: str, selected: set[int]) -> Iterator[str]:
        """Yield what the module became if all its tensors kept the rest of their names."""
        position = next(iter(selected))
        tail = self._old_names[position][len(module) :]
        for entry in self._entries(position):
            if self._name(entry).endswith(tail):
                yield self._name(entry).removesuffix(tail)

    def _entries(self, position: int) -> list[int]:
        """List the presented names of one tensor."""
        own = [] if self._names[position] is None else [position]
        return own + self._aliases.get(position, [])

    def _name(self, entry: int) -> str:
        return self._names[entry] or ""

    def _modules(self, image: set[int]) -> list[str]:
        """List the shortest modules, or else tensors, that together select the image and nothing else.

        There are none where a tensor is called as the module of another that is not in the image.
        """
        chosen: list[str] = []
        left = set(image)
        for entry in sorted(image, key=self._name):
            if entry not in left:
                continue
            name = self._name(entry)
            cuts = [place for place, char in enumerate(name) if char == "."]
            for module in [*(name[:cut] for cut in cuts), name]:
                members = self._new.select(module)
                if members <= image:
                    chosen.append(module)
                    left -= members
                    break
            else:
                return []
        return chosen


def _stems(names: Sequence[str]) -> Iterator[str]:
    """Yield what all the names start with: first only whole segments of it, then all of it."""
    low, high = min(names), max(names)
    different = (place for place, (one, other) in enumerate(zip(low, high, strict=False)) if one != other)
    common = low[: next(different, len(low))]
    whole = common.rpartition(".")[0] if len(names) > 1 or "." in common else common
    yield from dict.fromkeys(stem for stem in (whole, common.rstrip("."), common) if stem)
