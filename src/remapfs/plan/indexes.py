"""An index under new names."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import orjson

from remapfs.plan.extents import Literal, Slice, VirtualFile
from remapfs.plan.shards import presented_size

if TYPE_CHECKING:
    from collections.abc import Mapping

    from remapfs.checkpoint.model import Index
    from remapfs.plan.model import PlannedShard


def present_index(index: Index, shards: Mapping[str, PlannedShard]) -> VirtualFile:
    """Derive an index from the names that its shards present, in the order of the index on disk.

    Aliases come last. `metadata.total_size` is counted anew where it was present and the set of tensors is
    another.
    """
    own = {path: shards[path] for path in index.spelling if path in shards}
    weight_map = _weight_map(index, own)
    attributes, source = index.file.attributes, index.file.source
    if index.exact and all(not planned.rewritten or _same_names(planned) for planned in own.values()):
        return VirtualFile.of(index.file.path, [Slice(source, 0, source.size)], attributes)
    document = {**index.document, "weight_map": weight_map}
    metadata = document.get("metadata")
    if isinstance(metadata, dict) and "total_size" in metadata and _other_set(index, own):
        document["metadata"] = {**metadata, "total_size": sum(map(presented_size, own.values()))}
    text = _encode(document, index.indent) + b"\n" * index.final_newline
    return VirtualFile.of(index.file.path, [Literal(text)], attributes)


def _weight_map(index: Index, shards: Mapping[str, PlannedShard]) -> dict[str, str]:
    new = {
        path: dict(zip((tensor[0] for tensor in planned.shard.header.tensors), planned.names, strict=True))
        for path, planned in shards.items()
    }
    weight_map = {}
    for name, path in index.weight_map.items():
        presented = new[path][name]
        if presented is not None:
            weight_map[presented] = index.spelling[path]
    for path, planned in shards.items():
        weight_map.update((name, index.spelling[path]) for _, name in planned.aliases)
    return weight_map


def _same_names(planned: PlannedShard) -> bool:
    return not planned.aliases and all(
        name == tensor.name for name, tensor in zip(planned.names, planned.shard.header.tensors, strict=True)
    )


def _other_set(index: Index, shards: Mapping[str, PlannedShard]) -> bool:
    return not index.exact or any(None in planned.names or planned.aliases for planned in shards.values())


def _encode(document: Mapping[str, object], indent: int | None) -> bytes:
    match indent:
        case None:
            return orjson.dumps(document)
        case 2:
            return orjson.dumps(document, option=orjson.OPT_INDENT_2)
        case _:
            return json.dumps(document, ensure_ascii=False, indent=indent).encode()
