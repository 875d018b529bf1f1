"""An answer's failures by pattern: never a line a tensor."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from remapfs.check.model import Outcome
from remapfs.plan.patterns import Pattern, split

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from remapfs.check.model import Judged

_ORDER = ("refused", "ignored", "missing", "different", "unexpected", "unused", "dropped", "loads")
_Parts = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Problem:
    """Tensors of one pattern with one outcome.

    `source` is the pattern of their names on disk, None for missing ones, and `name` that of the names that
    they are presented or wanted under. `reason` is one of theirs. `nearest` is the pattern of the names that
    would be right, as far as it can be told, and `fix` the text of a rule, or an option, that gives them.
    """

    outcome: Outcome
    source: str | None
    name: str | None
    tensors: int
    length: int
    reason: str
    example: str
    nearest: str | None = None
    fix: str | None = None

    @property
    def pattern(self) -> str:
        """The presented or wanted names, or those on disk where none is presented."""
        return self.name or self.source or ""


class Advice(NamedTuple):
    """What names should be called: the pattern of the right names, and the text of a rule that gives them."""

    nearest: str | None
    fix: str | None


NO_ADVICE: Final = Advice(None, None)


def problems(judged: Iterable[Judged], advice: Mapping[str, Advice] = MappingProxyType({})) -> list[Problem]:
    """Group what does not load by outcome, names, reason and advice, up to numbers; the worst first.

    `advice` is by presented name.
    """
    groups: dict[tuple[object, ...], _Group] = {}
    for each in judged:
        if each.outcome.harmless:
            continue
        source, name = _split(each.source), _split(each.name)
        wrong = each.name if each.outcome is not Outcome.MISSING else None
        advised = NO_ADVICE if wrong is None else advice.get(wrong, NO_ADVICE)
        key = each.outcome, source and source[0], name and name[0], split(each.reason)[0], advised
        group = groups.get(key)
        if group is None:
            group = groups[key] = _Group(each, advised, _empty(source), _empty(name))
        for pattern, found in ((group.source, source), (group.name, name)):
            if pattern is not None and found is not None:
                pattern.add(found[1])
        group.tensors += 1
        group.length += each.length
    return sorted(
        _merged([group.problem() for group in groups.values()]),
        key=lambda problem: (_ORDER.index(problem.outcome), problem.pattern, problem.reason),
    )


def _merged(found: Iterable[Problem]) -> Iterable[Problem]:
    """Take together the tensors of a module that fail alike, such as a weight and its scales."""
    modules: dict[tuple[object, ...], list[Problem]] = {}
    for problem in found:
        key = (
            problem.outcome,
            _module(problem.source),
            _module(problem.name),
            split(problem.reason)[0],
            problem.nearest,
            problem.fix,
        )
        modules.setdefault(key, []).append(problem)
    for members in modules.values():
        yield replace(
            members[0],
            source=_leaves([problem.source for problem in members]),
            name=_leaves([problem.name for problem in members]),
            tensors=sum(problem.tensors for problem in members),
            length=sum(problem.length for problem in members),
        )


def _module(pattern: str | None) -> str | None:
    return None if pattern is None else pattern.rpartition(".")[0]


def _leaves(patterns: list[str | None]) -> str | None:
    known = sorted({pattern for pattern in patterns if pattern is not None})
    if len(known) < 2:  # noqa: PLR2004  # two make a list
        return known[0] if known else None
    module = known[0].rpartition(".")[0]
    leaves = ", ".join(pattern.rpartition(".")[2] for pattern in known)
    return f"{module}.{{{leaves}}}" if module else f"{{{leaves}}}"


@dataclass(slots=True)
class _Group:
    first: Judged
    advice: Advice
    source: Pattern | None
    name: Pattern | None
    tensors: int = 0
    length: int = 0

    def problem(self) -> Problem:
        return Problem(
            outcome=self.first.outcome,
            source=self.source.text() if self.source else None,
            name=self.name.text() if self.name else None,
            tensors=self.tensors,
            length=self.length,
            reason=self.first.reason,
            example=self.first.name or self.first.source or "",
            nearest=self.advice.nearest,
            fix=self.advice.fix,
        )


def _split(name: str | None) -> tuple[_Parts, list[str]] | None:
    return None if name is None else split(name)


def _empty(found: tuple[_Parts, list[str]] | None) -> Pattern | None:
    return None if found is None else Pattern(found[0], [set() for _ in found[1]])
