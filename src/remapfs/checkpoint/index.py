"""The index file: which shard holds which tensor."""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING

import orjson

from remapfs.checkpoint.keys import refuse_duplicates
from remapfs.checkpoint.model import File, Index, Note
from remapfs.errors import RemapError
from remapfs.words import count, some

if TYPE_CHECKING:
    from collections.abc import Mapping

    from remapfs.checkpoint.header import Header

SUFFIX = ".safetensors.index.json"
_SHOWN = 5


class IndexMode(StrEnum):
    """What to do where index and headers disagree."""

    STRICT = "strict"
    AUTHORITATIVE = "authoritative"
    REBUILD = "rebuild"


def parse_index(file: File, text: bytes) -> Index:
    """Read an index; raises RemapError where it is not an object with a `weight_map` of strings."""
    try:
        document = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise RemapError(f"{file.path} is not JSON: {error}", "fetch the index again") from None
    weight_map = document.get("weight_map") if isinstance(document, dict) else None
    if not isinstance(weight_map, dict) or not all(type(shard) is str for shard in weight_map.values()):
        raise RemapError(
            f"{file.path} has no 'weight_map' from tensor names to shard files", "fetch the index again"
        )
    if text.count(b'.safetensors"') != len(weight_map):
        refuse_duplicates(text, file.path, lambda key: _twice(key, file.path))
    folder = posixpath.dirname(file.path)
    paths = {
        shard: posixpath.normpath(posixpath.join(folder, shard))
        for shard in dict.fromkeys(weight_map.values())
    }
    for shard, path in paths.items():
        if path == ".." or path.startswith("../") or posixpath.isabs(path):
            raise RemapError(
                f"{file.path} names the shard '{shard}', outside the checkpoint", "correct the index"
            )
    found = re.match(rb"\{\n?( *|\t)\"", text)
    indent = len(found[1]) if found and b"\n" in found[0] else None
    if any(path != shard for shard, path in paths.items()):
        weight_map = {name: paths[shard] for name, shard in weight_map.items()}
    return Index(
        file,
        {**document, "weight_map": {}},
        weight_map,
        {path: shard for shard, path in paths.items()},
        indent,
        final_newline=text.endswith(b"\n"),
        exact=True,
    )


def reconcile(
    index: Index, headers: Mapping[str, Header], mode: IndexMode
) -> tuple[Index, dict[str, frozenset[str]], list[Note]]:
    """Make an index and the headers of its shards agree, or refuse.

    `headers` are those of the shards that exist, by path. Returns the index as it must be presented, the
    tensors to hide in each shard, and notes.
    """
    if _agree(index, headers):
        return _share_names(index, headers), {}, []
    names = {path: {tensor.name for tensor in header.tensors} for path, header in headers.items()}
    absent = Counter(shard for shard in index.weight_map.values() if shard not in headers)
    if absent and mode is not IndexMode.REBUILD:
        raise RemapError(
            f"{index.file.path} names {count(len(absent), 'shard')} that are not there"
            f" ({count(absent.total(), 'tensor')}): {some(sorted(absent), _SHOWN)}",
            "an incomplete download? fetch them; to do without them: --index rebuild",
        )
    missing = [(n, s) for n, s in index.weight_map.items() if s in headers and n not in names[s]]
    if missing and mode is not IndexMode.REBUILD:
        raise RemapError(
            f"{index.file.path} gives {count(len(missing), 'tensor')} to shards that do not have them: "
            + some([f"'{name}' in {shard}" for name, shard in missing], _SHOWN),
            "fetch index and shards again; to derive the index from the headers: --index rebuild",
        )
    stray = [(n, s) for s, own in names.items() for n in own if index.weight_map.get(n) != s]
    if mode is IndexMode.REBUILD:
        return _rebuild(index, names, absent)
    stray.sort()
    if mode is IndexMode.STRICT:
        raise RemapError(
            f"{count(len(stray), 'tensor')} in other shards than {index.file.path} says: "
            + some([_stray(index, name, shard) for name, shard in stray], _SHOWN),
            "a loader reads every tensor of every shard, so a stale copy overwrites the right one; "
            "to hide what the index does not give: --index authoritative; to index them all: --index rebuild",
        )
    hidden: dict[str, set[str]] = {}
    for name, shard in stray:
        hidden.setdefault(shard, set()).add(name)
    notes = [
        Note(shard, f"{count(len(own), 'tensor')} hidden that the index does not give to it", healed=True)
        for shard, own in sorted(hidden.items())
    ]
    return index, {shard: frozenset(own) for shard, own in hidden.items()}, notes


def _agree(index: Index, headers: Mapping[str, Header]) -> bool:
    give = index.weight_map.get
    return len(index.weight_map) == sum(len(header.tensors) for header in headers.values()) and all(
        give(tensor[0]) == path for path, header in headers.items() for tensor in header.tensors
    )


def _share_names(index: Index, headers: Mapping[str, Header]) -> Index:
    """Let the index hold the headers' own name objects: 280,000 names twice are 30 MB."""
    own = {tensor[0]: tensor[0] for header in headers.values() for tensor in header.tensors}
    return replace(index, weight_map={own[name]: shard for name, shard in index.weight_map.items()})


def _rebuild(
    index: Index,
    names: Mapping[str, set[str]],
    absent: Counter[str],
) -> tuple[Index, dict[str, frozenset[str]], list[Note]]:
    file = index.file
    holders: dict[str, str] = {}
    for shard in sorted(names):
        for name in sorted(names[shard]):
            if name in holders:
                raise RemapError(
                    f"'{name}' is stored twice, in {holders[name]} and in {shard}; headers alone cannot "
                    "tell which one is meant",
                    "--index authoritative keeps the one that the index names; a hide rule leaves a file out",
                )
            holders[name] = shard
    folder = posixpath.dirname(file.path)
    spelling = {path: index.spelling.get(path) or posixpath.relpath(path, folder or ".") for path in names}
    notes = [Note(file.path, f"derived anew from the headers of {count(len(names), 'shard')}", healed=True)]
    if absent:
        lost = f"{count(len(absent), 'shard')} not there, {count(absent.total(), 'tensor')} lost"
        notes.append(Note(file.path, f"{lost}: {some(sorted(absent), _SHOWN)}", healed=False))
    rebuilt = Index(
        file,
        index.document,
        dict(sorted(holders.items())),
        spelling,
        index.indent,
        index.final_newline,
        exact=False,
    )
    return rebuilt, {}, notes


def _twice(key: str, file: str) -> RemapError:
    return RemapError(f"{file} has the key '{key}' twice", "keep the right one of the two")


def _stray(index: Index, name: str, shard: str) -> str:
    given = index.weight_map.get(name)
    return f"'{name}' in {shard} " + (f"(the index says {given})" if given else "(not in the index)")
