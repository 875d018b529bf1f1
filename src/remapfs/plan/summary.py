"""A plan in a few lines: names by pattern, before and after."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from remapfs.plan.patterns import Pattern, split

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from remapfs.checkpoint.header import Tensor
    from remapfs.plan.model import Plan, PlannedShard


@dataclass(frozen=True, slots=True)
class NamePattern:
    """Tensors whose names differ only in numbers: `after` is None for dropped ones; `length` is in bytes."""

    before: str
    after: str | None
    tensors: int
    length: int


@dataclass(frozen=True, slots=True)
class Summary:
    """What a plan does to the tensors: the patterns of renamed, dropped, aliased and untouched ones."""

    renamed: tuple[NamePattern, ...]
    dropped: tuple[NamePattern, ...]
    aliased: tuple[NamePattern, ...]
    untouched: tuple[NamePattern, ...]
    shards: int

    @property
    def tensors(self) -> int:
        """How many tensors are presented."""
        return sum(group.tensors for group in (*self.renamed, *self.aliased, *self.untouched))

    @property
    def length(self) -> int:
        """How many bytes of tensors are presented."""
        return sum(group.length for group in (*self.renamed, *self.aliased, *self.untouched))


def summarise(plan: Plan) -> Summary:
    """Group all tensors of a plan by pattern, in the order of their names."""
    return Summary(
        renamed=_patterns((t, n) for t, n in _pairs(plan.shards) if n is not None and n != t.name),
        dropped=_patterns((t, n) for t, n in _pairs(plan.shards) if n is None),
        aliased=_patterns(
            (planned.shard.header.tensors[position], name)
            for planned in plan.shards
            for position, name in planned.aliases
        ),
        untouched=_patterns((t, n) for t, n in _pairs(plan.shards) if n == t.name),
        shards=len(plan.shards),
    )


def _pairs(shards: Iterable[PlannedShard]) -> Iterator[tuple[Tensor, str | None]]:
    for planned in shards:
        yield from zip(planned.shard.header.tensors, planned.names, strict=True)


def _patterns(pairs: Iterable[tuple[Tensor, str | None]]) -> tuple[NamePattern, ...]:
    groups: dict[tuple[tuple[str, ...], tuple[str, ...] | None], tuple[Pattern, Pattern | None]] = {}
    for tensor, name in pairs:
        parts, numbers = split(tensor.name)
        new_parts, new_numbers = (None, []) if name is None else split(name)
        group = groups.get((parts, new_parts))
        if group is None:
            before = Pattern(parts, [set() for _ in numbers])
            after = None if new_parts is None else Pattern(new_parts, [set() for _ in new_numbers])
            group = groups[parts, new_parts] = before, after
        group[0].add(numbers, tensor.end - tensor.begin)
        if group[1] is not None:
            group[1].add(new_numbers)
    listed = [
        NamePattern(before.text(), after.text(ranges=False) if after else None, before.count, before.length)
        for before, after in groups.values()
    ]
    return tuple(sorted(listed, key=lambda group: group.before))
