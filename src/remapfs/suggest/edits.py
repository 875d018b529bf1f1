"""How far a name is from another, and the replacements that bring it nearer."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

from remapfs.rules.model import Match, Pattern, Prefix, Substring, Suffix
from remapfs.suggest.kinds import slot_number

if TYPE_CHECKING:
    from collections.abc import Iterator

_CONTEXT = 2
_REMEMBERED = 1 << 15
_FINE = re.compile(r"[._]|[^._]+")


@lru_cache(maxsize=_REMEMBERED)
def distance(text: str, target: str) -> int:
    """Count the segments to insert, delete, replace, or exchange with their neighbour."""
    ours, theirs = text.split("."), target.split(".")
    before: list[int] = []
    row = list(range(len(theirs) + 1))
    for i, segment in enumerate(ours, 1):
        following = [i]
        for j, other in enumerate(theirs, 1):
            best = min(row[j] + 1, following[j - 1] + 1, row[j - 1] + (segment != other))
            if i > 1 and j > 1 and segment == theirs[j - 2] and ours[i - 2] == other:
                best = min(best, before[j - 2] + 1)
            following.append(best)
        before, row = row, following
    return row[-1]


@dataclass(frozen=True)
class Edit:
    """Replace `old` by `new`, at the start or at the end of a name if it is anchored there.

    Both are text of kinds: a stand-in in them stands for a number.
    """

    old: str
    new: str
    start: bool
    end: bool

    @cached_property
    def literal(self) -> bool:
        """Whether it can be written without a regular expression, and is blind to slots all the same."""
        return not (self.start and self.end) and not any(char.isdigit() for char in self.old)

    @cached_property
    def cost(self) -> tuple[int, int, int]:
        """What a reader pays: regular expressions, segments cut in two, and length."""
        cut = (not self.start and self.old[0] != ".") + (not self.end and self.old[-1] != ".")
        # What only adds text should say where: it would add it again wherever else its words stand.
        adds = not self.start and (self.new.endswith(self.old) or self.new.startswith(self.old))
        return (not self.literal) + cut + adds, self.old.count("."), len(self.old) + len(self.new)

    @cached_property
    def pattern(self) -> Pattern:
        """The pattern of the rule."""
        if not self.literal:
            return Match(re.compile(self._regex()))
        if self.start:
            return Prefix(self.old)
        return Suffix(self.old) if self.end else Substring(self.old)

    @cached_property
    def to(self) -> str:
        """What the rule puts in its place."""
        if self.literal:
            return self.new
        groups = {segment: i for i, segment in enumerate(_slots(self.old), 1)}
        parts = [part.replace("\\", r"\\") for part in self.new.split(".")]
        return ".".join(f"\\{groups[part]}" if part in groups else part for part in parts)

    def apply(self, text: str) -> str:
        """Apply it to one text."""
        if not self.literal:
            return self._compiled.sub(self.to, text) if self._anchor in text else text
        if self.start:
            return self.new + text[len(self.old) :] if text.startswith(self.old) else text
        if self.end:
            return text[: len(text) - len(self.old)] + self.new if text.endswith(self.old) else text
        return text.replace(self.old, self.new)

    @cached_property
    def needs(self) -> tuple[str, ...]:
        """Segments that a text must have for this to change it."""
        parts = self.old.split(".")
        first, last = 0 if self.start else 1, len(parts) if self.end else len(parts) - 1
        return tuple(part for part in parts[first:last] if slot_number(part) is None)

    @cached_property
    def _compiled(self) -> re.Pattern[str]:
        return re.compile(self._regex())

    @cached_property
    def _anchor(self) -> str:
        literal = [part for part in self.old.split(".") if slot_number(part) is None]
        return max(literal, key=len, default="")

    def _regex(self) -> str:
        parts = (
            r"(\d+)" if slot_number(part) is not None else re.escape(part) for part in self.old.split(".")
        )
        return ("^" if self.start else "") + r"\.".join(parts) + ("$" if self.end else "")


def whole(text: str, target: str) -> Edit:
    """Replace the whole name."""
    return Edit(text, target, start=True, end=True)


@lru_cache(maxsize=_REMEMBERED)
def edits(text: str, target: str) -> tuple[Edit, ...]:
    """List the replacements that a person might make on the way from one text to the other."""
    ours, theirs = text.split("."), target.split(".")
    cuts = _cuts(ours, theirs)
    found: dict[Edit, None] = {}
    for position, (i, k) in enumerate(cuts):
        for j, m in cuts[position:]:
            if ours[i:j] != theirs[k:m] and _near(ours[i:j], theirs[k:m]):
                for edit in _forms(ours, theirs, (i, j), (k, m)):
                    if _keeps_slots(edit):
                        found[edit] = None
    found[whole(text, target)] = None
    return tuple(found)


def _cuts(ours: list[str], theirs: list[str]) -> list[tuple[int, int]]:
    """Where both names can be cut so that what stands before and behind corresponds."""
    cuts = {(0, 0), (len(ours), len(theirs))}
    for i, k, size in SequenceMatcher(None, ours, theirs, autojunk=False).get_matching_blocks():
        cuts |= {(i + step, k + step) for step in range(size + 1)}
    return sorted(cuts)


def _near(old: list[str], new: list[str]) -> bool:
    """Whether there is little more than the change: at most two equal segments on either side."""
    return not (_equal_ends(old, new) > _CONTEXT or _equal_ends(old[::-1], new[::-1]) > _CONTEXT)


def _equal_ends(old: list[str], new: list[str]) -> int:
    equal = 0
    while equal < min(len(old), len(new)) and old[equal] == new[equal]:
        equal += 1
    return equal


def _forms(ours: list[str], theirs: list[str], old: tuple[int, int], new: tuple[int, int]) -> Iterator[Edit]:
    start, end = old[0] == 0, old[1] == len(ours)
    if old[0] == old[1]:
        return
    before, after = ".".join(ours[slice(*old)]), ".".join(theirs[slice(*new)])
    left, right = "" if start else ".", "" if end else "."
    if after:
        yield Edit(f"{left}{before}{right}", f"{left}{after}{right}", start=start, end=end)
        yield from _joins(before, after, left, right, start=start, end=end)
    elif start and not end:
        yield Edit(f"{before}.", "", start=True, end=False)
    elif not start:
        yield Edit(f".{before}{right}", right, start=False, end=end)


def _joins(  # noqa: PLR0913  # the span and what stands at its two ends
    before: str, after: str, left: str, right: str, *, start: bool, end: bool
) -> Iterator[Edit]:
    """Replace up to an underscore within a segment, where a dot becomes an underscore or the reverse."""
    if before.count(".") == after.count("."):
        return
    ours, theirs = _FINE.findall(before), _FINE.findall(after)
    most = min(len(ours), len(theirs)) - 1
    for keep in range(1, min(_equal_ends(ours[::-1], theirs[::-1]), most) + 1):
        old, new = ours[:-keep], theirs[:-keep]
        if {old[-1], new[-1]} <= {".", "_"}:
            yield Edit(left + "".join(old), left + "".join(new), start=start, end=False)
    for skip in range(1, min(_equal_ends(ours, theirs), most) + 1):
        old, new = ours[skip:], theirs[skip:]
        if {old[0], new[0]} <= {".", "_"}:
            yield Edit("".join(old) + right, "".join(new) + right, start=False, end=end)


def _slots(text: str) -> list[str]:
    return [part for part in text.split(".") if slot_number(part) is not None]


def _keeps_slots(edit: Edit) -> bool:
    return bool(edit.old) and sorted(_slots(edit.old)) == sorted(_slots(edit.new))
