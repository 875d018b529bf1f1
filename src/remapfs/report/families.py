"""Hundreds of thousands of tensors as a few families: names that differ only in numbers, and made alike."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from remapfs.plan.patterns import split

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from remapfs.report.items import Item

Template = tuple[str | int, ...]
"""A name in pieces: text, or the position of the axis whose number stands there."""

_Column = tuple[str, ...]
_FEW = 8
"""Up to here, numbers inside a word are taken as part of it: w1, w2 and w3 are three things."""
_SHORT = 15
_SPARSE = 4
_SMALL = 64


class State(NamedTuple):
    """What became of a tensor: a mark's key, and one of the reasons of those that share the state."""

    mark: str
    reason: str


@dataclass(frozen=True, slots=True)
class Family:
    """Tensors of one dtype, shape and length whose names are made from one template.

    `axes` are the numbers in the names, as they are written, each axis in its order. `states` has one element
    for every combination, the last axis running fastest: None where there is no such tensor.
    """

    source: Template | None
    name: Template | None
    axes: tuple[tuple[str, ...], ...]
    states: tuple[State | None, ...]
    length: int
    dtype: str
    shape: tuple[int, ...] | None

    @property
    def tensors(self) -> int:
        """How many tensors it has."""
        return sum(state is not None for state in self.states)


_NOTHING: tuple[None, list[str]] = (None, [])


@dataclass(slots=True)
class _Members:
    """Tensors of one look, an element each: the numbers in both names, and what became of them.

    Three lists of plain tuples: a NamedTuple a tensor would cost the cycle collector seconds.
    """

    source: list[tuple[str, ...]] = field(default_factory=list)
    name: list[tuple[str, ...]] = field(default_factory=list)
    state: list[State] = field(default_factory=list)


class _Look(NamedTuple):
    """What the members of a family have in common: the text around the numbers, and the make."""

    source: tuple[str, ...] | None
    name: tuple[str, ...] | None
    length: int
    dtype: str
    shape: tuple[int, ...] | None


def families(found: Iterable[Item]) -> list[Family]:
    """Group tensors into families, in the order of their names."""
    groups: dict[tuple[object, ...], tuple[_Look, _Members]] = {}
    states: dict[tuple[str, str], State] = {}
    for source_name, presented, mark, reason, length, dtype, shape in found:
        source, numbers = _NOTHING if source_name is None else split(source_name)
        name, new_numbers = _NOTHING if presented is None else split(presented)
        key = source, name, length, dtype, shape
        group = groups.get(key)
        if group is None:
            group = groups[key] = _Look(source, name, length, dtype, shape), _Members()
        state = states.get((mark, reason))
        if state is None:
            state = states[mark, reason] = State(mark, reason)
        members = group[1]
        members.source.append(tuple(numbers))
        members.name.append(tuple(new_numbers))
        members.state.append(state)
    made = [family for look, members in groups.values() for family in _families(look, members)]
    return sorted(made, key=_order)


def pattern(template: Template, axes: Sequence[Sequence[str]] | None = None) -> str:
    """Write a template with {} for each number, or with the numbers' ranges where the axes are given."""
    return "".join(
        piece if isinstance(piece, str) else "{}" if axes is None else "{" + ranges(axes[piece]) + "}"
        for piece in template
    )


def ranges(numbers: Sequence[str]) -> str:
    """Write numbers in their order as ranges: 0-3,7."""
    runs: list[tuple[str, str]] = []
    for number in numbers:
        if runs and _follows(number, runs[-1][1]):
            runs[-1] = runs[-1][0], number
        else:
            runs.append((number, number))
    return ",".join(low if low == high else f"{low}-{high}" for low, high in runs)


def _follows(number: str, last: str) -> bool:
    """Whether two numbers are neighbours as a range writes them: plain digits, no zeros in front."""
    return max(len(number), len(last)) <= _SHORT and str(int(last)) == last and str(int(last) + 1) == number


def _order(family: Family) -> tuple[str, str, str, tuple[int, ...], tuple[tuple[str, ...], ...]]:
    source, name = (pattern(template or ()) for template in (family.source, family.name))
    return source or name, name, family.dtype, family.shape or (), family.axes


def _families(look: _Look, members: _Members) -> Iterator[Family]:
    """Find which numbers are axes, and make those that are not a part of the text."""
    columns = list(zip(*members.source, strict=True))
    new_columns = list(zip(*members.name, strict=True))
    source_axes = _axes(look.source, columns)
    axes = [columns[at] for at in source_axes]
    if look.source is None:
        name_axes = {at: axis for axis, at in enumerate(_axes(look.name, new_columns))}
        axes = [new_columns[at] for at in name_axes]
    else:
        copies = ((at, _index(axes, column)) for at, column in enumerate(new_columns))
        name_axes = {at: axis for at, axis in copies if axis is not None}
    own_axes = {at: axis for axis, at in enumerate(source_axes)}
    literal = [column for at, column in enumerate(columns) if at not in own_axes]
    literal += [column for at, column in enumerate(new_columns) if at not in name_axes]
    for alike in _alike(len(members.state), [column for column in literal if len(set(column)) > 1]):
        source = look.source and _template(look.source, members.source[alike[0]], own_axes)
        name = look.name and _template(look.name, members.name[alike[0]], name_axes)
        states = [members.state[at] for at in alike]
        places = list(zip(*([axis[at] for at in alike] for axis in axes), strict=True)) or [()] * len(alike)
        for block, laid_out in _blocks(list(zip(places, states, strict=True))):
            yield _folded(Family(source, name, block, laid_out, look.length, look.dtype, look.shape))


def _index(axes: list[_Column], column: _Column) -> int | None:
    return next((at for at, axis in enumerate(axes) if axis == column), None)


def _alike(members: int, literal: list[_Column]) -> Iterable[Sequence[int]]:
    """Take together the positions of the members that have the same numbers in these columns."""
    if not literal:
        return [range(members)]
    groups: dict[tuple[str, ...], list[int]] = {}
    for at, numbers in enumerate(zip(*literal, strict=True)):
        groups.setdefault(numbers, []).append(at)
    return groups.values()


def _axes(parts: Sequence[str] | None, columns: Sequence[_Column]) -> list[int]:
    """Find the numbers that vary and stand for themselves between dots, or vary a lot."""
    return [
        at
        for at, column in enumerate(columns)
        if parts is not None
        and len(different := set(column)) > 1
        and (len(different) > _FEW or _alone(parts, at))
    ]


def _alone(parts: Sequence[str], at: int) -> bool:
    before, after = parts[at], parts[at + 1]
    starts = before.endswith(".") or not (before or at)
    return starts and (after.startswith(".") or (not after and at + 2 == len(parts)))


def _template(parts: Sequence[str], literal: Sequence[str], places: dict[int, int]) -> Template:
    pieces: list[str | int] = [parts[0]]
    for at, (number, part) in enumerate(zip(literal, parts[1:], strict=True)):
        pieces += [places.get(at, number), part]
    return _joined(pieces)


def _joined(pieces: Iterable[str | int]) -> Template:
    joined: list[str | int] = []
    for piece in pieces:
        if isinstance(piece, str) and joined and isinstance(joined[-1], str):
            joined[-1] += piece
        elif piece != "":
            joined.append(piece)
    return tuple(joined)


def _blocks(
    cells: list[tuple[tuple[str, ...], State]],
) -> Iterator[tuple[tuple[tuple[str, ...], ...], tuple[State | None, ...]]]:
    """Lay tensors out over their axes, in as many blocks as keep most places of a block taken."""
    known: dict[tuple[str, ...], State] = {}
    again: list[tuple[tuple[str, ...], State]] = []
    for at, state in cells:
        if at in known:
            again.append((at, state))
        else:
            known[at] = state
    axes = tuple(tuple(sorted(set(column), key=_number)) for column in zip(*known, strict=True))
    places = 1
    for axis in axes:
        places *= len(axis)
    if places > max(_SMALL, _SPARSE * len(known)):
        for first in axes[0]:
            yield from _blocks([(at, state) for at, state in known.items() if at[0] == first])
    else:
        states: list[State | None] = [None] * places
        positions = [{number: place for place, number in enumerate(axis)} for axis in axes]
        for at, state in known.items():
            place = 0
            for known_at, number in zip(positions, at, strict=True):
                place = place * len(known_at) + known_at[number]
            states[place] = state
        yield axes, tuple(states)
    if again:
        yield from _blocks(again)


def _number(digits: str) -> tuple[int, str, str]:
    """Order by value without int(), which refuses numbers of thousands of digits."""
    plain = digits.lstrip("0")
    return len(plain), plain, digits


def _folded(family: Family) -> Family:
    """Make axes of a single number a part of the text."""
    kept = [place for place, axis in enumerate(family.axes) if len(axis) > 1]
    if len(kept) == len(family.axes):
        return family
    text = {place: axis[0] for place, axis in enumerate(family.axes) if len(axis) == 1}
    places = {place: new for new, place in enumerate(kept)}

    def fold(template: Template | None) -> Template | None:
        if template is None:
            return None
        return _joined(
            piece if isinstance(piece, str) else text[piece] if piece in text else places[piece]
            for piece in template
        )

    return Family(
        fold(family.source),
        fold(family.name),
        tuple(family.axes[place] for place in kept),
        family.states,
        family.length,
        family.dtype,
        family.shape,
    )
