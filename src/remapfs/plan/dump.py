"""A plan as text: stable from run to run and from machine to machine."""

from __future__ import annotations

import hashlib
import json
import posixpath
from typing import TYPE_CHECKING

from remapfs.plan.extents import Literal
from remapfs.words import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from remapfs.plan.extents import Extent
    from remapfs.plan.model import Plan, PlannedShard

_VERSION = 1


def dump(plan: Plan) -> Iterator[str]:
    """Yield the lines of the text form: directories, files with their extents and tensors, rules, findings.

    Paths are relative to the source; literals are given by length and SHA-256. Modes, owners and times, which
    differ between two copies of a checkpoint, are left out.
    """
    yield f"remapfs plan {_VERSION}"
    shards = {planned.shard.file.path: planned for planned in plan.shards}
    for directory in plan.directories:
        if directory.path:
            yield f"directory {_quote(directory.path)}"
    for file in plan.files:
        yield f"file {_quote(file.path)} {file.size}"
        yield from (f"  {_extent(extent, plan.root)}" for extent in file.extents)
        if file.path in shards and shards[file.path].rewritten:
            yield from _tensors(shards[file.path])
    for rule in plan.rules:
        if rule.hits:
            yield f"rule {rule.rule}: {rule.hits}"
    for finding in plan.findings:
        yield f"finding {finding.kind} {_quote(finding.file)}: {printable(finding.text)}"


def _extent(extent: Extent, root: str) -> str:
    if isinstance(extent, Literal):
        return f"literal {extent.length} sha256:{hashlib.sha256(extent.data).hexdigest()}"
    path = posixpath.relpath(extent.source.path, root)
    return f"slice {_quote(path)} {extent.offset} {extent.length}"


def _tensors(planned: PlannedShard) -> Iterator[str]:
    tensors = planned.shard.header.tensors
    for tensor, name in zip(tensors, planned.names, strict=True):
        if name is None:
            yield f"  drop {_quote(tensor.name)}"
        elif name != tensor.name:
            yield f"  name {_quote(tensor.name)} {_quote(name)}"
    for position, name in planned.aliases:
        yield f"  alias {_quote(tensors[position].name)} {_quote(name)}"


def _quote(text: str) -> str:
    plain = text.isprintable() and " " not in text and '"' not in text and text
    return text if plain else json.dumps(text)
