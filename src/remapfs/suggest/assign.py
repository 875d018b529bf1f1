"""Which kind of the source is which kind of the reference."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from remapfs.suggest.forms import Fit, dtype_fit, shape_fit
from remapfs.suggest.kinds import shown
from remapfs.suggest.matching import NO, best_pairs
from remapfs.suggest.words import changed_segments, lexicon

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from remapfs.suggest.kinds import Kind, Slots
    from remapfs.suggest.matching import Scores
    from remapfs.suggest.words import Lexicon

_SHAPE = {Fit.NEVER: NO, Fit.DIFFERENT: -200, Fit.UNKNOWN: 0, Fit.SOME: 250, Fit.SAME: 500}
_NUMBERS = {Fit.NEVER: NO, Fit.DIFFERENT: -300, Fit.UNKNOWN: 0, Fit.SOME: 300, Fit.SAME: 400}
_DTYPE = {Fit.NEVER: NO, Fit.DIFFERENT: 0, Fit.UNKNOWN: 0, Fit.SOME: 50, Fit.SAME: 100}
# Out of 1000. Without a shape that agrees, names must be alike for a pair to be believed.
_ALIKE_WITHOUT_SHAPES = 300
_ALIKE_IN_ANOTHER_SHAPE = 500
_NOTHING_IN_COMMON = 200
_LEAST = 400
_ALIKE = "alike in shape, dtype and numbers, told apart by name"
_NAMES_ONLY = "told apart by name, as shape and dtype are not known"
_ROUNDS = 3


@dataclass(frozen=True)
class Choice:
    """Pairs of kinds' texts that were chosen in one way among several that fit."""

    why: str
    pairs: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Assignment:
    """Pairs of kinds; `decided` are those for which others fit too, `undecided` says what ties."""

    pairs: tuple[tuple[Kind, Kind], ...]
    decided: tuple[Choice, ...]
    undecided: tuple[str, ...]


def assign(source: Sequence[Kind], wanted: Sequence[Kind]) -> Assignment:
    """Pair kinds by what is known of them: same name first, then shape, dtype and numbers, then likeness."""
    family = _family(source, wanted)
    same = _alike(source, wanted, family)
    taken, given = {kind.text for kind, _ in same}, {kind.text for _, kind in same}
    table = _Table(
        [kind for kind in source if kind.text not in taken],
        [kind for kind in wanted if kind.text not in given],
        _domains(wanted),
        family,
    )
    found, words = table.settle()
    tied = {row for row, column in found.items() if table.again.get(row) != column}
    tied |= {row for row, column in table.again.items() if found.get(row) != column}
    sure = {row: column for row, column in sorted(found.items()) if row not in tied}
    return Assignment(
        (*same, *((table.source[row], table.wanted[column]) for row, column in sure.items())),
        tuple(table.explain(sure, words)),
        tuple(table.ties(tied, found)),
    )


@dataclass(frozen=True)
class _Family:
    """Whether the reference is another model of the family: with other sizes, or with other layers."""

    sizes: bool
    layers: bool


def _family(source: Sequence[Kind], wanted: Sequence[Kind]) -> _Family:
    ours = {shape for kind in source for shape in kind.shapes}
    theirs = {shape for kind in wanted for shape in kind.shapes}
    layers = [
        {numbers[0] for kind in kinds if kind.depth for numbers in kind.numbers} for kinds in (source, wanted)
    ]
    return _Family(2 * len(ours & theirs) < len(theirs), layers[0] != layers[1])


def numbers_fit(source: Kind, wanted: Kind, domain: Sequence[frozenset[str]]) -> Fit:
    """Compare the numbers that occur; `domain` are those that the reference has at all, slot by slot."""
    if source.depth != wanted.depth:
        return Fit.NEVER
    if source.numbers == wanted.numbers:
        return Fit.SAME
    if _within(source, domain) == wanted.numbers:
        return Fit.SOME
    return Fit.DIFFERENT if source.numbers.isdisjoint(wanted.numbers) else Fit.UNKNOWN


def _within(kind: Kind, domain: Sequence[frozenset[str]]) -> frozenset[Slots]:
    return frozenset(
        numbers
        for numbers in kind.numbers
        if all(number in known for number, known in zip(numbers, domain, strict=True))
    )


def _domains(wanted: Iterable[Kind]) -> dict[int, list[frozenset[str]]]:
    columns: dict[int, list[set[str]]] = {}
    for kind in wanted:
        sets = columns.setdefault(kind.depth, [set() for _ in range(kind.depth)])
        for seen, numbers in zip(sets, zip(*kind.numbers, strict=True), strict=False):
            seen.update(numbers)
    return {depth: [frozenset(seen) for seen in sets] for depth, sets in columns.items()}


def _alike(source: Sequence[Kind], wanted: Sequence[Kind], family: _Family) -> list[tuple[Kind, Kind]]:
    """Pair what has the same name, or would have but for the start that most names change in the same way."""
    by_text = {kind.text: kind for kind in wanted}
    pairs: dict[str, Kind] = {}
    for old, new in (("", ""), *_common_start(source, wanted)):
        for kind in source:
            other = by_text.get(new + kind.text[len(old) :]) if kind.text.startswith(old) else None
            if other and kind.text not in pairs and _can(kind, other, family):
                pairs[kind.text] = other
                del by_text[other.text]
    return [(kind, pairs[kind.text]) for kind in source if kind.text in pairs]


def _common_start(source: Sequence[Kind], wanted: Sequence[Kind]) -> list[tuple[str, str]]:
    votes: Counter[tuple[str, str]] = Counter()
    for ours in source:
        for theirs in wanted:
            if ours.leaf == theirs.leaf:
                old, new = _before_common_end(ours.text.split("."), theirs.text.split("."))
                votes["".join(f"{part}." for part in old), "".join(f"{part}." for part in new)] += 1
    return [
        start for start, number in votes.most_common(1) if 2 * number > len(source) and start[0] != start[1]
    ]


def _before_common_end(ours: list[str], theirs: list[str]) -> tuple[list[str], list[str]]:
    while len(ours) > 1 and len(theirs) > 1 and ours[-1] == theirs[-1]:
        ours, theirs = ours[:-1], theirs[:-1]
    if ours[-1] == theirs[-1]:
        return ours[:-1], theirs[:-1]
    return ours, theirs


def _can(kind: Kind, other: Kind, family: _Family) -> bool:
    least = Fit.DIFFERENT if family.sizes else Fit.UNKNOWN
    return shape_fit(kind, other) >= least and dtype_fit(kind, other) is not Fit.NEVER


@dataclass
class _Table:
    source: list[Kind]
    wanted: list[Kind]
    domains: dict[int, list[frozenset[str]]]
    family: _Family
    again: dict[int, int] = field(default_factory=dict)

    @cached_property
    def structure(self) -> Scores:
        """How well each pair fits, names aside."""
        scores = np.full((len(self.source), len(self.wanted)), NO, dtype=np.int64)
        shapes = _SHAPE | ({Fit.DIFFERENT: 0} if self.family.sizes else {})
        numbers = _NUMBERS | ({Fit.DIFFERENT: -100} if self.family.sizes or self.family.layers else {})
        for row, ours in enumerate(self.source):
            for column, theirs in enumerate(self.wanted):
                if ours.depth == theirs.depth:
                    parts = (
                        shapes[shape_fit(ours, theirs)],
                        _DTYPE[dtype_fit(ours, theirs)],
                        numbers[numbers_fit(ours, theirs, self.domains[theirs.depth])],
                    )
                    scores[row, column] = NO if NO in parts else sum(parts)
        return scores

    @cached_property
    def shapes(self) -> list[list[Fit]]:
        return [[shape_fit(ours, theirs) for theirs in self.wanted] for ours in self.source]

    def settle(self) -> tuple[dict[int, int], Lexicon]:
        """Pair, learn from the pairs that are sure what odd words mean, and pair again."""
        texts = [kind.text for kind in self.source], [kind.text for kind in self.wanted]
        learnt: dict[str, str] = {}
        words = lexicon(*texts, learnt)
        scores = self._scores(words)
        found = best_pairs(scores, _LEAST)
        for _ in range(_ROUNDS):
            more = self._learn(found)
            if not more.items() - learnt.items():
                break
            learnt |= more
            words = lexicon(*texts, learnt)
            scores = self._scores(words)
            found = best_pairs(scores, _LEAST)
        # The same, with the columns met in the opposite order: what comes out otherwise is a tie.
        last = len(self.wanted) - 1
        mirrored = best_pairs(np.ascontiguousarray(scores[:, ::-1]), _LEAST)
        self.again = {row: last - column for row, column in mirrored.items()}
        return found, words

    def _scores(self, words: Lexicon) -> Scores:
        scores = self.structure.copy()
        for row, column in zip(*np.nonzero(self.structure > NO), strict=True):
            alike = words.likeness(self.source[row].text, self.wanted[column].text)
            fit = self.shapes[row][column]
            if (fit is Fit.UNKNOWN and alike < _ALIKE_WITHOUT_SHAPES) or (
                fit is Fit.DIFFERENT and alike < _ALIKE_IN_ANOTHER_SHAPE
            ):
                scores[row, column] = NO
            else:
                scores[row, column] += alike
        return scores

    def _learn(self, found: Mapping[int, int]) -> dict[str, str]:
        """Take from the pairs that nothing else fits which segment became which."""
        votes: dict[str, set[str]] = {}
        for row, column in found.items():
            if self.shapes[row][column] >= Fit.SOME and not any(self._rivals(row, column)):
                for ours, theirs in changed_segments(self.source[row].text, self.wanted[column].text):
                    votes.setdefault(ours, set()).add(theirs)
        given = Counter(next(iter(meant)) for meant in votes.values() if len(meant) == 1)
        return {
            word: next(iter(meant))
            for word, meant in sorted(votes.items())
            if len(meant) == 1 and given[next(iter(meant))] == 1
        }

    def _rivals(self, row: int, column: int) -> tuple[list[int], list[int]]:
        """Find the other rows and columns that fit as well, names aside."""
        fit = self.structure[row, column]
        rows = [int(other) for other in np.nonzero(self.structure[:, column] >= fit)[0] if other != row]
        columns = [int(other) for other in np.nonzero(self.structure[row] >= fit)[0] if other != column]
        return rows, columns

    def explain(self, pairs: Mapping[int, int], words: Lexicon) -> Iterator[Choice]:
        """Say how pairs were chosen for which something else fits, those together that could be exchanged."""
        groups: dict[int | str, list[int]] = {}
        leader: dict[int, int] = {}
        owner = {column: row for row, column in pairs.items()}
        why: dict[int, str] = {}
        for row, column in pairs.items():
            rows, columns = self._rivals(row, column)
            if self.shapes[row][column] is Fit.DIFFERENT:
                why[row] = "by name, in another shape"
            elif rows or columns:
                linked = {row, *rows, *(owner[other] for other in columns if other in owner)}
                first = min({leader.get(other, other) for other in linked})
                leader |= dict.fromkeys(linked, first)
                why[row] = _ALIKE if self.shapes[row][column] is not Fit.UNKNOWN else _NAMES_ONLY
            elif words.likeness(self.source[row].text, self.wanted[column].text) < _NOTHING_IN_COMMON:
                why[row] = "only because shape, dtype and numbers fit nothing else"
        for row, reason in why.items():
            groups.setdefault(leader.get(row, row) if reason == _ALIKE else reason, []).append(row)
        for rows in groups.values():
            yield Choice(
                why[rows[0]],
                tuple((self.source[row].text, self.wanted[pairs[row]].text) for row in rows),
            )

    def ties(self, tied: Iterable[int], found: Mapping[int, int]) -> Iterable[str]:
        """Say which kinds could be exchanged."""
        groups: dict[frozenset[int], list[int]] = {}
        for row in sorted(tied):
            fitting = frozenset(
                column
                for column in {found.get(other) for other in tied} | {self.again.get(other) for other in tied}
                if column is not None and self.structure[row, column] > NO
            )
            groups.setdefault(fitting, []).append(row)
        for columns, rows in groups.items():
            ours = ", ".join(shown(self.source[row].text) for row in rows)
            theirs = ", ".join(shown(self.wanted[column].text) for column in sorted(columns))
            yield f"{ours} could be any of {theirs}: names, shapes and numbers fit alike"
