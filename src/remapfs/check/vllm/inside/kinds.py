"""Which names are so alike that some can speak for all."""

from __future__ import annotations

import re
from typing import NamedTuple

_NUMBER = re.compile(r"\d+")

# After so many refusals, and no acceptance, only samples of a kind are tried.
ENOUGH = 4
_SAMPLES = 8


class Item(NamedTuple):
    """A tensor of the checkpoint: its place in the whole list, and what its shard's header says."""

    number: int
    name: str
    dtype: str
    shape: tuple[int, ...]


class Kind:
    """Names of one kind, what became of those that were tried, and which are to be tried in any case."""

    def __init__(self, members: list[Item] | None = None) -> None:
        self.members = members or []
        self.samples: set[int] = set()
        self.refused = 0
        self.accepted = 0
        self.reason = ""
        """The last refusal."""

    def choose(self) -> None:
        """Choose the samples: the first, the last and some between."""
        last = len(self.members) - 1
        self.samples = {self.members[round(i * last / (_SAMPLES - 1))].number for i in range(_SAMPLES)}


class Kinds:
    """Group names by their text around the numbers, dtype and shape; one with both outcomes also by layer.

    The first number of a name is its layer's.
    """

    def __init__(self, items: list[Item]) -> None:
        self._layers: dict[tuple[Kind, str], Kind] = {}
        self._kind: dict[int, Kind] = {}
        kinds: dict[tuple[str, str, tuple[int, ...]], Kind] = {}
        for item in items:
            key = _NUMBER.sub("#", item.name), item.dtype, item.shape
            kind = kinds.get(key)
            if kind is None:
                kind = kinds[key] = Kind()
            kind.members.append(item)
            self._kind[item.number] = kind
        for kind in kinds.values():
            kind.choose()

    def of(self, item: Item) -> Kind:
        """Give the kind that an item is of, whatever its layer."""
        return self._kind[item.number]

    def is_settled(self, item: Item) -> bool:
        """Whether the kind's refusals speak for this item."""
        kind = self._kind[item.number]
        if not kind.refused:
            return False
        kind = self._narrow(item, kind)
        return kind.refused >= ENOUGH and not kind.accepted and item.number not in kind.samples

    def accepted(self, item: Item) -> None:
        """Note that the loader took an item."""
        kind = self._kind[item.number]
        kind.accepted += 1
        if kind.refused:
            self._narrow(item, kind).accepted += 1

    def refused(self, item: Item, reason: str) -> None:
        """Note that the loader stopped at an item."""
        kind = self._kind[item.number]
        kind.refused += 1
        kind.reason = reason
        narrow = self._narrow(item, kind)
        if narrow is not kind:
            narrow.refused += 1
            narrow.reason = reason

    def reason(self, item: Item) -> str:
        """Give the refusal that speaks for an item."""
        return self._narrow(item, self._kind[item.number]).reason

    def _narrow(self, item: Item, kind: Kind) -> Kind:
        """Give the items of the same layer, if some of the kind are accepted and some are not."""
        if not (kind.accepted and kind.refused):
            return kind
        key = kind, _layer(item)
        narrow = self._layers.get(key)
        if narrow is None:
            narrow = self._layers[key] = Kind([other for other in kind.members if _layer(other) == key[1]])
            narrow.choose()
        return narrow


def _layer(item: Item) -> str:
    found = _NUMBER.search(item.name)
    return found[0] if found else ""
