"""Rules applied to names, one name at a time."""

from __future__ import annotations

from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING

from remapfs.errors import RemapError
from remapfs.rules.literal import required_literal
from remapfs.rules.model import Alias, Drop, Match, Prefix, Rename, Substring, Suffix

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from remapfs.rules.model import Pattern, Step

_LONGEST = 10_000
_MOST_ALIASES = 10_000


@dataclass(frozen=True, slots=True)
class Renaming:
    """What the steps made of a list of names.

    `names` has the new name of each, None where it was dropped; `aliases` are (position of the original,
    further name), in the order of the originals; `hits` counts, for each step, the names that it matched.
    """

    names: tuple[str | None, ...]
    aliases: tuple[tuple[int, str], ...]
    hits: tuple[int, ...]


def apply_each(names: Sequence[str], steps: Sequence[Step]) -> Renaming:
    """Apply the steps in order, each to the result of the one before."""
    current = list(names)
    # An alias is a further entry of `current` that belongs to the same position; a drop takes entries away.
    positions = list(range(len(names)))
    originals = len(names)
    hits = []
    for step in steps:
        match step:
            case Rename(pattern, to):
                touched = rename_all(current, pattern, to)
                _check_lengths(step, current, touched)
                hits.append(len(touched))
            case Drop(pattern):
                gone = set(_find(current, pattern))
                originals -= sum(1 for i in gone if i < originals)
                current = [name for i, name in enumerate(current) if i not in gone]
                positions = [position for i, position in enumerate(positions) if i not in gone]
                hits.append(len(gone))
            case Alias(name, other):
                found = [i for i, known in enumerate(current) if known == name]
                _check_number(step, len(found))
                current += [other] * len(found)
                positions += [positions[i] for i in found]
                hits.append(len(found))
    final: list[str | None] = [None] * len(names)
    for position, name in zip(positions[:originals], current, strict=False):
        final[position] = name
    aliases = sorted(zip(positions[originals:], current[originals:], strict=True), key=itemgetter(0))
    return Renaming(tuple(final), tuple(aliases), tuple(hits))


def _check_lengths(step: Rename, names: Sequence[str], touched: Iterable[int]) -> None:
    """Refuse names that grow and grow: a few dozen rules could double one until the memory is full."""
    longest = max((len(names[i]) for i in touched), default=0)
    if longest > _LONGEST:
        raise RemapError(
            f"{step.origin} makes a name of {longest:,} characters",
            "its match stands in its result, so that names grow with each such rule",
        )


def _check_number(step: Alias, number: int) -> None:
    if number > _MOST_ALIASES:
        raise RemapError(
            f"{step.origin} finds its name {number:,} times",
            "aliases of aliases double them; give each further name once",
        )


def rename_text(text: str, steps: Iterable[Step]) -> str:
    """Apply only the rename steps to one text."""
    current = [text]
    for step in steps:
        if isinstance(step, Rename):
            rename_all(current, step.pattern, step.to)
    return current[0]


def last_rename(name: str, steps: Iterable[Step]) -> Rename | None:
    """Find the last rename step that touches a name, for messages."""
    current, last = [name], None
    for step in steps:
        if isinstance(step, Rename) and rename_all(current, step.pattern, step.to):
            last = step
    return last


def _find(names: list[str], pattern: Pattern) -> list[int]:
    match pattern:
        case Match(regex):
            search = regex.search
            return [i for i in _containing(names, required_literal(regex)) if search(names[i])]
        case Prefix(text):
            return [i for i, name in enumerate(names) if name.startswith(text)]
        case Suffix(text):
            return [i for i, name in enumerate(names) if name.endswith(text)]
        case Substring(text):
            return _containing(names, text)


def _containing(names: list[str], text: str) -> list[int]:
    return [i for i, name in enumerate(names) if text in name]


def rename_all(names: list[str], pattern: Pattern, to: str) -> list[int]:
    """Rename in place what the pattern matches, and return the positions that it matched."""
    if isinstance(pattern, Match):
        return _substitute(names, pattern, to)
    touched = _find(names, pattern)
    replace = _replacer(pattern, to)
    for i in touched:
        names[i] = replace(names[i])
    return touched


def _substitute(names: list[str], pattern: Match, to: str) -> list[int]:
    subn = pattern.regex.subn
    touched = []
    for i in _containing(names, required_literal(pattern.regex)):
        name, count = subn(to, names[i])
        if count:
            names[i] = name
            touched.append(i)
    return touched


def _replacer(pattern: Prefix | Suffix | Substring, to: str) -> Callable[[str], str]:
    length = len(pattern.text)
    match pattern:
        case Prefix():
            return lambda name: to + name[length:]
        case Suffix():
            return lambda name: name[: len(name) - length] + to
        case Substring(text):
            return lambda name: name.replace(text, to)
