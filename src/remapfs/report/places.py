"""Where a family stands in the grid: stack, layer and component, and what within them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from remapfs.report.families import Family, Template

_ALONE = re.compile(r"(?:(?<=\.)|^)\d+(?=\.|$)")


class Place(NamedTuple):
    """Where tensors stand, derived from their names alone.

    In `layers.17.ffn.experts.200.w1.weight` the stack is `layers`, the layer 17, the component `ffn.experts`,
    the item 200, the part `w1` and the leaf `weight`. Layer and item are the position of an axis, or a number
    as text where there is but one, or None. Without a layer the stack is "" and the component the whole name.
    """

    stack: str
    layer: int | str | None
    component: str
    item: int | str | None
    part: str
    leaf: str


class _Rough(NamedTuple):
    stack: str
    layer: int | str | None
    before: str
    item: int | str | None
    rest: str


def places(found: Sequence[Family]) -> list[Place]:
    """Place every family by its presented name; a dropped one beside what is left of its module."""
    presented = _places([family.name for family in found])
    on_disk = _places([family.source for family in found])
    moved = _moved(zip(on_disk, presented, strict=True))
    made = []
    for source, name in zip(on_disk, presented, strict=True):
        if name is not None:
            made.append(name)
        elif source is not None:
            module = source.stack, source.component, source.part
            stack, component, part = moved.get(module) or moved.get((source.stack, "", "")) or module
            made.append(source._replace(stack=stack, component=component or source.component, part=part))
    return made


def _moved(
    pairs: Iterable[tuple[Place | None, Place | None]],
) -> Mapping[tuple[str, str, str], tuple[str, str, str] | None]:
    """Map modules on disk to presented ones, and stacks, with an empty component: None if not to one."""
    found: dict[tuple[str, str, str], tuple[str, str, str] | None] = {}
    for source, name in pairs:
        if source is None or name is None or not source.stack:
            continue
        for before, after in (
            ((source.stack, source.component, source.part), (name.stack, name.component, name.part)),
            ((source.stack, "", ""), (name.stack, "", "")),
        ):
            found[before] = after if found.get(before, after) == after else None
    return found


def _places(templates: Sequence[Template | None]) -> list[Place | None]:
    rough = [None if template is None else _rough(template) for template in templates]
    modules = {(each.stack, each.before.rpartition(".")[0]) for each in rough if each and each.item is None}
    holders = {(stack, above) for stack, module in modules for above in _above(module)}
    return [each and _place(each, holders) for each in rough]


def _above(module: str) -> Iterable[str]:
    while module := module.rpartition(".")[0]:
        yield module


def _place(rough: _Rough, holders: set[tuple[str, str]]) -> Place:
    stack, layer, before, item, rest = rough
    if layer is None:
        return Place("", None, before, None, "", "")
    if item is not None:
        part, dot, leaf = rest.rpartition(".")
        return Place(stack, layer, before, item, part if dot else leaf, leaf if dot else "")
    module, dot, leaf = before.rpartition(".")
    if not dot or (stack, module) in holders:
        return Place(stack, layer, before, None, "", "")
    return Place(stack, layer, module, None, "", leaf)


def _rough(template: Template) -> _Rough:
    """Cut a name at its first and second number; later ones become {}."""
    texts = [""]
    numbers: list[int | str] = []
    for piece in template:
        if isinstance(piece, int):
            numbers.append(piece)
            texts.append("")
            continue
        end = 0
        for found in _ALONE.finditer(piece):
            texts[-1] += piece[end : found.start()]
            texts.append("")
            numbers.append(found.group())
            end = found.end()
        texts[-1] += piece[end:]
    if not numbers or not texts[0].strip("._"):
        return _Rough("", None, "{}".join(texts), None, "")
    stack = texts[0].strip("._")
    if len(numbers) == 1:
        return _Rough(stack, numbers[0], texts[1].strip("."), None, "")
    return _Rough(stack, numbers[0], texts[1].strip("."), numbers[1], "{}".join(texts[2:]).strip("."))
