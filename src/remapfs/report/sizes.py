"""Where the bytes are: by component, by dtype, by shard."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from remapfs.check.model import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from remapfs.plan import Plan
    from remapfs.report.families import Family
    from remapfs.report.places import Place


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar: a name, the bytes, and the number of tensors."""

    name: str
    length: int
    tensors: int


def by_component(found: Sequence[Family], placed: Sequence[Place]) -> list[Bar]:
    """Add up what is presented by component, over all layers; the largest first."""
    return _bars(
        (place.component if place.layer is not None else "outside the layers", *_presented(family))
        for family, place in zip(found, placed, strict=True)
    )


def by_dtype(found: Sequence[Family]) -> list[Bar]:
    """Add up what is presented by dtype; the largest first."""
    return _bars((family.dtype, *_presented(family)) for family in found if family.dtype)


def by_shard(plan: Plan) -> list[Bar]:
    """Add up what is presented by shard, in their order."""
    bars = []
    for planned in plan.shards:
        lengths = [
            tensor.length
            for tensor, name in zip(planned.shard.header.tensors, planned.names, strict=True)
            if name is not None
        ]
        bars.append(Bar(planned.shard.file.path, sum(lengths), len(lengths)))
    return bars


def _presented(family: Family) -> tuple[int, int]:
    tensors = sum(
        state is not None and state.mark not in (Outcome.DROPPED, Outcome.MISSING) for state in family.states
    )
    return tensors, tensors * family.length


def _bars(numbers: Iterable[tuple[str, int, int]]) -> list[Bar]:
    found: dict[str, tuple[int, int]] = {}
    for name, tensors, length in numbers:
        before = found.get(name, (0, 0))
        found[name] = before[0] + tensors, before[1] + length
    return _sorted(found)


def _sorted(found: Mapping[str, tuple[int, int]]) -> list[Bar]:
    bars = [Bar(name, length, tensors) for name, (tensors, length) in found.items() if tensors]
    return sorted(bars, key=lambda bar: (-bar.length, bar.name))
