"""What every kind of the source should be called."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from remapfs.plan.patterns import by_module, patterns
from remapfs.suggest.assign import Choice, assign
from remapfs.suggest.forms import CACHE_SCALES, WEIGHTS, Fit, parts_by_module, shape_fit
from remapfs.suggest.kinds import fill
from remapfs.words import count

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from remapfs.suggest.kinds import Kind

_SAME_PART = {"weight_scale_inv": "scale", "scale": "weight_scale_inv"}


@dataclass(frozen=True)
class Targets:
    """`names` maps a source kind's text to what it should become; `drops` are kinds that have no place.

    `missing` are names of the reference that nothing becomes.
    """

    names: dict[str, str]
    drops: tuple[Kind, ...]
    notes: tuple[str, ...]
    decided: tuple[Choice, ...]
    undecided: tuple[str, ...]
    missing: tuple[str, ...]


def find_targets(source: Sequence[Kind], wanted: Sequence[Kind]) -> Targets:
    """Pair the kinds of both sides; the parts of a quantised weight go where their module goes."""
    our_parts, their_parts = parts_by_module(source), parts_by_module(wanted)
    assignment = assign(_mains(source, our_parts), _mains(wanted, their_parts))
    names: dict[str, str] = {}
    covered: set[str] = set()
    decided = list(assignment.decided)
    pairs = list(assignment.pairs)
    for ours, theirs in assignment.pairs:
        packed = ours.leaf in WEIGHTS and theirs.leaf in WEIGHTS
        names[ours.text] = f"{theirs.module}.{ours.leaf}" if packed and theirs.module else theirs.text
        covered.add(theirs.text)
        if not packed:
            continue
        own, other = our_parts.get(ours.module, {}), their_parts.get(theirs.module, {})
        if not own:
            covered |= {part.text for part in other.values()}
        for leaf, part in own.items():
            new, how = _part(leaf, part, own, other)
            names[part.text] = f"{theirs.module}.{new}"
            if new in other:
                covered.add(other[new].text)
                pairs.append((part, other[new]))
            if how:
                decided.append(Choice(how, ((part.text, names[part.text]),)))
    # A part whose weight went elsewhere, or is called otherwise, is a tensor like any other.
    parts = [kind for own in our_parts.values() for kind in own.values() if kind.text not in names]
    more = assign(parts, [kind for kind in wanted if kind.text not in covered])
    names |= {ours.text: theirs.text for ours, theirs in more.pairs}
    covered |= {theirs.text for _, theirs in more.pairs}
    pairs += more.pairs
    decided += more.decided
    kin = _kin(pairs)
    left = [kind for kind in source if kind.text not in names]
    quantised = bool(their_parts)
    drops = [kind for kind in left if quantised and _surplus(kind, names, wanted)]
    absent = [name for kind in wanted if kind.text not in covered for name in kind.names]
    if not kin:
        absent += [name for ours, theirs in pairs for name in _lacking(ours, theirs)]
    undecided = (*assignment.undecided, *more.undecided)
    notes = [*_notes(pairs, our_parts, their_parts, kin=kin)]
    return Targets(names, tuple(drops), tuple(notes), tuple(decided), undecided, tuple(absent))


def _mains(kinds: Iterable[Kind], parts: dict[str, dict[str, Kind]]) -> list[Kind]:
    return [kind for kind in kinds if parts.get(kind.module, {}).get(kind.leaf) is not kind]


def _part(leaf: str, part: Kind, own: dict[str, Kind], other: dict[str, Kind]) -> tuple[str, str]:
    """Choose what a part is called: as the reference calls it, or as it was where it has none such."""
    if leaf in other or not other:
        return leaf, ""
    same = _SAME_PART.get(leaf)
    if same in other and same not in own:
        return str(same), ""
    ours, theirs = [name for name in own if name not in other], [name for name in other if name not in own]
    if len(ours) == len(theirs) == 1 and shape_fit(part, other[theirs[0]]) is Fit.SAME:
        return theirs[0], "the only part that is left, of the same shape"
    return leaf, "the reference is quantised in another form"


def _surplus(kind: Kind, names: dict[str, str], wanted: Iterable[Kind]) -> bool:
    """Whether a kind is a scale of the KV cache that the reference, though quantised, does without."""
    if kind.leaf not in CACHE_SCALES or any(other.leaf in CACHE_SCALES for other in wanted):
        return False
    attention = kind.module.rpartition(".")[0]
    return any(text.startswith(attention + ".") for text in names)


def _kin(pairs: Iterable[tuple[Kind, Kind]]) -> bool:
    """Whether the reference is another member of the family: fewer layers or experts, or other sizes."""
    return any(
        theirs.numbers < ours.numbers or shape_fit(ours, theirs) is Fit.DIFFERENT for ours, theirs in pairs
    )


def _lacking(ours: Kind, theirs: Kind) -> list[str]:
    gone = theirs.numbers - ours.numbers
    return (
        [name for name, slots in zip(theirs.names, theirs.slots, strict=True) if slots in gone]
        if gone
        else []
    )


def _notes(
    pairs: Sequence[tuple[Kind, Kind]],
    our_parts: dict[str, dict[str, Kind]],
    their_parts: dict[str, dict[str, Kind]],
    *,
    kin: bool,
) -> Iterator[str]:
    if our_parts and not their_parts:
        yield "the reference is not quantised: the scales of a weight keep their own last segment"
    if their_parts and not our_parts:
        yield "the source is not quantised: the scales that the reference has are not missed"
    if all(not theirs.shapes for _, theirs in pairs):
        yield "the reference is only names: nothing could be told by shape or dtype"
    more = [
        name
        for ours, theirs in pairs
        if (beyond := ours.numbers - theirs.numbers)
        for name in fill(ours.text, sorted(beyond))
    ]
    if more:
        first = patterns(more)[0].text()
        yield (
            f"{count(len(more), 'tensor')} with numbers that the reference does not have follow the rules of "
            f"those that it has, such as {first}"
        )
    if kin:
        lacking = [name for ours, theirs in pairs for name in _lacking(ours, theirs)]
        if lacking:
            yield (
                f"the reference is another model of the family: {count(len(lacking), 'name')} of its layers "
                f"are not in the source, such as {by_module(lacking)[0][0]}"
            )
