"""Names that differ only in their slots, as one kind."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from remapfs.rules.blind import SLOT

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from remapfs.suggest.model import Named

Slots = tuple[str, ...]
Shape = tuple[int, ...]

# What stands for the numbers in a kind's text: segments that occur in no checkpoint.
_FIRST = 70_000_001
_STAND_INS = tuple(str(_FIRST + slot) for slot in range(64))
_NUMBER_OF = {text: slot for slot, text in enumerate(_STAND_INS)}


def slot_number(segment: str) -> int | None:
    """Which slot a segment of a kind's text stands for; None for literal text."""
    return _NUMBER_OF.get(segment)


@dataclass
class Kind:
    """All names with the same text around their slots.

    `text` is such a name with a stand-in for each slot. `names` and `slots` are those of the members, in the
    order given; `forms` are the members' distinct (dtype, shape), and `place` is the first one's position in
    the list.
    """

    text: str
    place: int
    names: list[str] = field(default_factory=list)
    slots: list[Slots] = field(default_factory=list)
    forms: set[tuple[str | None, Shape | None]] = field(default_factory=set)

    @cached_property
    def numbers(self) -> frozenset[Slots]:
        """The members' slots as a set."""
        return frozenset(self.slots)

    @cached_property
    def shapes(self) -> frozenset[Shape]:
        """The distinct shapes that are known."""
        return frozenset(shape for _, shape in self.forms if shape is not None)

    @cached_property
    def dtypes(self) -> frozenset[str]:
        """The distinct dtypes that are known."""
        return frozenset(dtype for dtype, _ in self.forms if dtype is not None)

    @property
    def module(self) -> str:
        """The text before the last segment, without the dot."""
        return self.text.rpartition(".")[0]

    @property
    def leaf(self) -> str:
        """The last segment."""
        return self.text.rpartition(".")[2]

    @property
    def depth(self) -> int:
        """How many slots there are."""
        return len(self.slots[0])


def group(tensors: Iterable[Named]) -> list[Kind]:
    """Group tensors by kind, in the order in which kinds are met; a name that comes again is left out."""
    found: dict[tuple[str, ...], Kind] = {}
    seen: set[str] = set()
    for place, (name, dtype, shape) in enumerate(tensors):
        if name in seen:
            continue
        seen.add(name)
        parts = SLOT.split(name)
        key = tuple(parts[::2])
        kind = found.get(key)
        if kind is None:
            kind = found[key] = Kind(_text(key), place)
        kind.names.append(name)
        kind.slots.append(tuple(parts[1::2]))
        kind.forms.add((dtype, shape))
    return list(found.values())


def fill(text: str, slots: Sequence[Slots]) -> list[str]:
    """Put each member's numbers into a kind's text."""
    if not slots or not slots[0]:
        return [text] * len(slots)
    parts = [part.replace("{", "{{").replace("}", "}}") for part in text.split(".")]
    pattern = ".".join(f"{{{_NUMBER_OF[part]}}}" if part in _NUMBER_OF else part for part in parts)
    return [pattern.format(*numbers) for numbers in slots]


def shown(text: str) -> str:
    """Write a kind's text for a person: N for each slot."""
    return ".".join("N" if part in _NUMBER_OF else part for part in text.split("."))


def _text(key: tuple[str, ...]) -> str:
    return key[0] + "".join(f".{stand_in}{part}" for stand_in, part in zip(_STAND_INS, key[1:], strict=False))
