"""What is on disk, as immutable data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from remapfs.checkpoint.header import Header
    from remapfs.checkpoint.source import Attributes, Source


@dataclass(frozen=True, slots=True)
class File:
    """A regular file of the checkpoint: `path` is relative to its root, links resolved in `source`."""

    path: str
    source: Source
    attributes: Attributes


@dataclass(frozen=True, slots=True)
class Folder:
    """A directory of the checkpoint; the root's path is the empty string."""

    path: str
    attributes: Attributes


@dataclass(frozen=True, slots=True)
class Shard:
    """A safetensors file whose names are in scope.

    `namespace` is the path of the index that lists it, or its directory where none does: within one
    namespace a name means one tensor. `header.tensors` leaves out what an index mode has hidden,
    and `exact` says that the header on disk holds just those tensors, in a form that strict readers accept.
    """

    file: File
    header: Header
    namespace: str
    indexed: bool
    exact: bool


@dataclass(frozen=True, slots=True)
class Index:
    """A `*.safetensors.index.json`.

    `document` is the whole JSON with an empty `weight_map`; `weight_map` maps names to shard paths relative
    to the checkpoint's root, and `spelling` those paths to what the index calls them. `exact` says that the
    file on disk agrees with the headers as they are.
    """

    file: File
    document: Mapping[str, Any]
    weight_map: Mapping[str, str]
    spelling: Mapping[str, str]
    indent: int | None
    final_newline: bool
    exact: bool


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A directory as it was when it was read.

    `files` are all regular files in the order of their paths, shards and indexes among them; `documents`
    holds the bytes of the JSON files that may carry module names or that rules rewrite. `notes` are (file,
    what became of it, sentence) for whatever was unusual.
    """

    root: str
    files: tuple[File, ...]
    folders: tuple[Folder, ...]
    shards: tuple[Shard, ...]
    indexes: tuple[Index, ...]
    documents: Mapping[str, bytes]
    hidden: tuple[str, ...]
    notes: tuple[Note, ...]


@dataclass(frozen=True, slots=True)
class Note:
    """Something unusual that was found: `healed` says that the presented checkpoint does not have it."""

    file: str
    text: str
    healed: bool
