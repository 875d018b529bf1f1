"""What is refused, or worth a warning, once the new names are known."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING

from remapfs.checkpoint.header import METADATA
from remapfs.errors import RemapError
from remapfs.plan.model import Finding, Kind
from remapfs.plan.patterns import by_module, patterns
from remapfs.rules.literal import required_literal
from remapfs.rules.model import Alias
from remapfs.rules.steps import last_rename, rename_text
from remapfs.words import count, some

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from remapfs.plan.model import PlannedShard
    from remapfs.rules.model import Refuse, Rules, Step

_SHOWN = 10
_DOUBLED = re.compile(r"(?:^|\.)([^.]*[A-Za-z_][^.]*)\.\1(?:\.|$)")
_SCALE = re.compile(
    r"\.(?:weight_scale(?:_2|_inv)?|weight_global_scale|weight_packed_scale|input_scale|scale)$"
)
_PACKED = frozenset({"U8", "I8", "F4", "F8_E4M3", "F8_E5M2"})


def check_hits(rules: Rules, hits: Sequence[int], example: str) -> None:
    """Refuse a rename, drop or alias rule that matches nothing, unless it says that it is optional."""
    for step, number in zip(rules.steps, hits, strict=True):
        if number or step.optional:
            continue
        what = f"finds no tensor called '{step.name}'" if isinstance(step, Alias) else "matches no tensor"
        raise RemapError(
            f"{step.origin} {what}",
            f"names here look like '{example}', and earlier rules have been applied to them; "
            "if the rule need not match, write  optional = true  in it",
        )


def check_names(shards: Sequence[PlannedShard], steps: Sequence[Step]) -> list[Finding]:
    """Refuse names that no checkpoint may have: reserved, empty, or given to two tensors of one namespace."""
    namespaces: dict[str, list[PlannedShard]] = defaultdict(list)
    for planned in shards:
        namespaces[planned.shard.namespace].append(planned)
    findings = []
    for members in namespaces.values():
        names = [name for planned in members for name in planned.presented_names()]
        if "" in names or METADATA in names:
            _check_reserved(members, steps)
        if len(set(names)) != len(names):
            findings += _check_collisions(members, steps)
    return findings


def refused(shards: Iterable[PlannedShard], rules: Sequence[Refuse], *, force: bool) -> list[Finding]:
    """Refuse tensors that the reader cannot load; with `force`, only warn of them."""
    listed = tuple(shards)
    found: dict[str, list[tuple[str, str]]] = {}
    hints: dict[str, None] = {}
    for rule in rules:
        hits = list(_matching(listed, rule))
        if hits:
            found.setdefault(rule.because, []).extend(hits)
            hints[rule.hint] = None
    findings = []
    text = []
    for because, hits in found.items():
        refusal = f"{count(len(hits), 'tensor')} cannot be loaded"
        lines = [f"{pattern}   ({number})" for pattern, number in by_module(name for _, name in hits)]
        text += [f"{refusal}: {because}", *lines]
        files = sorted({path for path, _ in hits})
        where = files[0] if len(files) == 1 else f"{len(files)} shards"
        findings.append(Finding(Kind.WARNED, where, f"{refusal}: {', '.join(lines)}: {because}"))
    if text and not force:
        raise RemapError(
            text[0],
            "; ".join([*filter(None, hints), "to present them all the same: --force"]),
            lines=text[1:],
        )
    return findings


def warn_of_names(shards: Iterable[PlannedShard]) -> list[Finding]:
    """Warn of likely mistakes: a segment that a rule doubled, packed weights without their scales."""
    findings = []
    for planned in shards:
        path = planned.shard.file.path
        doubled = [
            new
            for tensor, new in planned.presented()
            if len(new) > len(tensor.name) and _DOUBLED.search(new) and not _DOUBLED.search(tensor.name)
        ]
        if doubled:
            text = f"a rule doubled a part of {_few(doubled)}; was this checkpoint already renamed?"
            findings.append(Finding(Kind.WARNED, path, text))
        if None in planned.names:
            findings += _unscaled(planned)
    return findings


def _unscaled(planned: PlannedShard) -> Iterator[Finding]:
    tensors = planned.shard.header.tensors
    kept = {
        tensor.name: tensor.dtype
        for tensor, name in zip(tensors, planned.names, strict=True)
        if name is not None
    }
    weights = []
    for tensor, name in zip(tensors, planned.names, strict=True):
        scale = _SCALE.search(tensor.name) if name is None else None
        weight = f"{tensor.name[: scale.start()]}.weight" if scale else ""
        if kept.get(weight) in _PACKED:
            weights.append(weight)
    if weights:
        text = (
            f"scales were dropped but the quantised weights stay, which no loader can read: {_few(weights)}"
        )
        yield Finding(Kind.WARNED, planned.shard.file.path, text)


def _check_reserved(shards: Iterable[PlannedShard], steps: Sequence[Step]) -> None:
    for planned in shards:
        for tensor, new in planned.presented():
            old = tensor.name
            if new in ("", METADATA) and new != old:
                what = f"'{METADATA}', which is reserved" if new else "an empty name"
                raise RemapError(
                    f"{_maker(old, new, steps)} gives '{old}' in {planned.shard.file.path} {what}",
                    "give it another name",
                )


def _check_collisions(shards: Sequence[PlannedShard], steps: Sequence[Step]) -> list[Finding]:
    holders: dict[str, tuple[str, PlannedShard]] = {}
    shared: list[str] = []
    for planned in shards:
        for tensor, new in planned.presented():
            old = tensor.name
            if new not in holders:
                holders[new] = (old, planned)
                continue
            first, other = holders[new]
            if first == old and other is not planned and not planned.shard.indexed:
                shared.append(new)
                continue
            width = max(len(first), len(old))
            makers = [
                f"{maker} made the {place}"
                for place, name in (("first", first), ("second", old))
                if (maker := _maker(name, new, steps))
            ]
            raise RemapError(
                f"two tensors would both be named '{new}':",
                f"{' and '.join(makers)}; was this checkpoint already renamed?",
                lines=[
                    f"{first:<{width}}   in {other.shard.file.path}",
                    f"{old:<{width}}   in {planned.shard.file.path}",
                ],
            )
    if not shared:
        return []
    folder = shards[0].shard.namespace or "."
    text = f"{len(shared)} names stand in more than one file, with no index to choose: {_few(shared)}"
    return [Finding(Kind.WARNED, folder, text)]


def _maker(old: str, new: str, steps: Sequence[Step]) -> str:
    """Name the rule that made `new` of `old`; "" where the name is the tensor's own."""
    if rename_text(old, steps) == new:
        return str(step.origin) if (step := last_rename(old, steps)) else ""
    return next((str(step.origin) for step in steps if isinstance(step, Alias)), "")


def _matching(shards: Iterable[PlannedShard], rule: Refuse) -> Iterator[tuple[str, str]]:
    literal, search = required_literal(rule.regex), rule.regex.search
    for planned in shards:
        for tensor, name in zip(planned.shard.header.tensors, planned.names, strict=True):
            if (
                name is not None
                and literal in name
                and search(name)
                and (not rule.dtypes or tensor.dtype in rule.dtypes)
            ):
                yield planned.shard.file.path, name


def _few(names: Sequence[str]) -> str:
    return some([group.text() for group in patterns(names)], _SHOWN)
