"""Which names are so alike that some can speak for all."""

from __future__ import annotations

import re
from typing import NamedTuple

_NUMBER = re.compile(r"\d+")

# After so many refusals, and no acceptance, only samples of a kind are tried.
ENOUGH = 4
_SAMPLES = 8

Key = tuple[object, ...]


class Item(NamedTuple):
    """A tensor of the checkpoint: its place in the whole list, and what its shard's header says."""

    number: int
    name: str
    dtype: str
    shape: tuple[int, ...]


class _Kind:
    def __init__(self) -> None:
        self.members: list[Item] = []
        self.samples: set[int] = set()
        self.refused = 0
        self.accepted = 0
        self.reason = ""

    def choose(self) -> None:
        last = len(self.members) - 1
        spread = {round(i * last / (_SAMPLES - 1)) for i in range(_SAMPLES)}
        self.samples = {self.members[i].number for i in spread}


class Kinds:
    """Group names by their text around the numbers, dtype and shape; one with both outcomes also by layer.

    The first number of a name is its layer's.
    """

    def __init__(self, items: list[Item]) -> None:
        self._kinds: dict[Key, _Kind] = {}
        self._key: dict[int, Key] = {}
        texts: dict[tuple[str, str, tuple[int, ...]], Key] = {}
        for item in items:
            text = _NUMBER.sub("#", item.name), item.dtype, item.shape
            key = texts.setdefault(text, text)
            self._key[item.number] = key
            self._kinds.setdefault(key, _Kind()).members.append(item)
        for kind in self._kinds.values():
            kind.choose()

    def key(self, item: Item) -> Key:
        """Give what an item has in common with the others of its kind."""
        return self._key[item.number]

    def is_settled(self, item: Item) -> bool:
        """Whether the kind's refusals speak for this item."""
        kind = self._of(item)
        return kind.refused >= ENOUGH and not kind.accepted and item.number not in kind.samples

    def is_mixed(self, item: Item) -> bool:
        """Whether others of the item's kind are accepted."""
        return bool(self._kinds[self.key(item)].accepted)

    def accepted(self, item: Item) -> None:
        """Note that the loader took an item."""
        for kind in self._both(item):
            kind.accepted += 1

    def refused(self, item: Item, reason: str) -> None:
        """Note that the loader stopped at an item."""
        for kind in self._both(item):
            kind.refused += 1
            kind.reason = reason

    def reason(self, item: Item) -> str:
        """Give the refusal that speaks for an item."""
        return self._of(item).reason

    def _of(self, item: Item) -> _Kind:
        whole = self._kinds[self.key(item)]
        return self._of_layer(item, whole) if whole.accepted and whole.refused else whole

    def _both(self, item: Item) -> list[_Kind]:
        whole = self._kinds[self.key(item)]
        layer = self._kinds.get((*self.key(item), _layer(item)))
        if layer is None and whole.accepted and whole.refused:
            layer = self._of_layer(item, whole)
        return [whole] if layer is None else [whole, layer]

    def _of_layer(self, item: Item, whole: _Kind) -> _Kind:
        key = *self.key(item), _layer(item)
        kind = self._kinds.get(key)
        if kind is None:
            kind = self._kinds[key] = _Kind()
            kind.members = [member for member in whole.members if _layer(member) == key[-1]]
            kind.choose()
        return kind


def _layer(item: Item) -> str:
    found = _NUMBER.search(item.name)
    return found[0] if found else ""
