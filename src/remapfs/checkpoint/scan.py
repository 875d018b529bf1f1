"""Read a checkpoint directory: its files, headers, indexes and configs."""

from __future__ import annotations

import os
import posixpath
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, BinaryIO

from remapfs.checkpoint.header import HUB_MAX_HEADER, LENGTH_BYTES, MAX_HEADER, Header, parse_header
from remapfs.checkpoint.index import SUFFIX, IndexMode, parse_index, reconcile
from remapfs.checkpoint.model import Checkpoint, File, Index, Note, Shard
from remapfs.checkpoint.source import ChangedError, check_unchanged, open_source
from remapfs.checkpoint.walk import walk
from remapfs.errors import RemapError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

SHARD_SUFFIX = ".safetensors"
CONFIGS = ("config.json", "hf_quant_config.json")
_READERS = 4
_POINTER = b"version https://git-lfs.github.com/spec/"
_PEEK = 1024


def read_checkpoint(
    root: str | os.PathLike[str],
    *,
    mode: IndexMode = IndexMode.STRICT,
    hides: Callable[[str], bool] = lambda _: False,
    documents: Collection[str] = (),
    unindexed: bool = False,
) -> Checkpoint:
    """Read and validate everything that names live in; tensor data is not read.

    `hides` says which relative paths are left out, `documents` names further JSON files whose text is
    wanted, and `unindexed` takes shards into scope that lie beside an index which does not name them.
    Raises RemapError for anything that cannot be presented truthfully.
    """
    given = os.fspath(root)
    if not os.path.isdir(given):
        what = "is not a directory" if os.path.exists(given) else "does not exist"
        raise RemapError(
            f"the source {given} {what}", "give the directory that holds the *.safetensors files"
        )
    real = os.path.realpath(given)
    listing = walk(real, hides)
    files = {file.path: file for file in listing.files}
    indexes = [parse_index(file, _read(file)) for path, file in files.items() if path.endswith(SUFFIX)]
    shards, left = _scope(files, indexes, all_shards=unindexed or mode is IndexMode.REBUILD)
    with ThreadPoolExecutor(_READERS) as pool:
        headers = dict(zip(shards, pool.map(read_header, (files[path] for path in shards)), strict=True))
    settled, hidden, notes = _reconcile(indexes, headers, mode)
    if not shards and not left:
        raise RemapError(f"no *.safetensors file in {given}", "give the directory that holds the shards")
    wanted = {*documents, *(path for path in files if posixpath.basename(path) in CONFIGS)}
    return Checkpoint(
        root=real,
        files=tuple(files.values()),
        folders=tuple(listing.folders),
        shards=tuple(_shard(files[path], headers[path], shards[path], hidden.get(path)) for path in shards),
        indexes=tuple(settled),
        documents={path: _read(files[path]) for path in sorted(wanted) if path in files},
        hidden=tuple(listing.hidden),
        notes=(*listing.notes, *notes, *_notes(headers), *left),
    )


def read_header(file: File) -> Header:
    """Read one shard's header; raises RemapError that says what the file is instead, where it is no shard."""
    try:
        with _open(file) as shard:
            start = shard.read(LENGTH_BYTES)
            length = int.from_bytes(start, "little")
            size = file.source.size
            if size < LENGTH_BYTES or length > min(MAX_HEADER, size - LENGTH_BYTES):
                raise _not_a_shard(file, length, start + shard.read(_PEEK))
            return parse_header(shard.read(length), file.path, size - LENGTH_BYTES - length)
    except OSError as error:
        raise RemapError(f"cannot read {file.path}: {error.strerror}", "check its permissions") from None


def _read(file: File) -> bytes:
    try:
        with _open(file) as stream:
            return stream.read()
    except OSError as error:
        raise RemapError(f"cannot read {file.path}: {error.strerror}", "check its permissions") from None


@contextmanager
def _open(file: File) -> Iterator[BinaryIO]:
    """Open the file that was listed, and refuse what is another one, before it is read or after."""
    try:
        descriptor = open_source(file.source)
        with open(descriptor, "rb") as stream:
            yield stream
            check_unchanged(file.source, descriptor)
    except ChangedError as error:
        raise RemapError(f"{file.path} {error}", "plan again once the checkpoint is complete") from None


def _scope(
    files: Mapping[str, File], indexes: list[Index], *, all_shards: bool
) -> tuple[dict[str, str], list[Note]]:
    """Map each shard in scope to its namespace, and note the safetensors files that are not."""
    listed: dict[str, str] = {}
    for index in indexes:
        for path in index.spelling:
            listed.setdefault(path, index.file.path)
    indexed_folders = {posixpath.dirname(index.file.path): index.file.path for index in indexes}
    scope: dict[str, str] = {}
    left = []
    for path in files:
        folder = posixpath.dirname(path)
        if path in listed:
            scope[path] = listed[path]
        elif not path.endswith(SHARD_SUFFIX):
            continue
        elif folder not in indexed_folders:
            scope[path] = folder
        elif all_shards:
            scope[path] = indexed_folders[folder]
        else:
            index_name = posixpath.basename(indexed_folders[folder])
            text = f"is not in {index_name}: shown unchanged, rules do not apply to it"
            left.append(Note(path, text, healed=False))
    return scope, left


def _reconcile(
    indexes: list[Index], headers: Mapping[str, Header], mode: IndexMode
) -> tuple[list[Index], dict[str, frozenset[str]], list[Note]]:
    settled: list[Index] = []
    hidden: dict[str, frozenset[str]] = {}
    notes: list[Note] = []
    for index in indexes:
        folder = posixpath.dirname(index.file.path)
        own = {
            path: header
            for path, header in headers.items()
            if path in index.spelling or (mode is IndexMode.REBUILD and posixpath.dirname(path) == folder)
        }
        agreed, hide, found = reconcile(index, own, mode)
        settled.append(agreed)
        hidden |= hide
        notes += found
    return settled, hidden, notes


def _shard(file: File, header: Header, namespace: str, hidden: frozenset[str] | None) -> Shard:
    if hidden:
        header = replace(header, tensors=tuple(t for t in header.tensors if t.name not in hidden))
    return Shard(file, header, namespace, namespace.endswith(SUFFIX), exact=not header.odd and not hidden)


def _notes(headers: Mapping[str, Header]) -> list[Note]:
    notes = []
    for path, header in headers.items():
        notes += [Note(path, odd, healed=True) for odd in header.odd]
        notes += [
            Note(
                path,
                f"has the dtype {dtype}, which remapfs does not know: its sizes are taken from the offsets",
                healed=False,
            )
            for dtype in header.unknown_dtypes
        ]
        if header.length > HUB_MAX_HEADER:
            text = f"its header has {header.length:,} bytes; the Hugging Face hub client reads"
            notes.append(Note(path, f"{text} {HUB_MAX_HEADER:,}", healed=False))
    return notes


def _not_a_shard(file: File, length: int, start: bytes) -> RemapError:
    size, path = file.source.size, file.path
    if not size:
        return RemapError(f"{path} is empty", "an interrupted download? fetch the file")
    if start.startswith(_POINTER):
        return _pointer(path, size, start)
    if start.lstrip()[:9].lower().startswith((b"<!doctype", b"<html", b"<?xml")):
        return RemapError(
            f"{path} is a web page ({size:,} bytes), not tensors",
            "the download saved an error page: log in or accept the model's licence, then fetch it again",
        )
    if size < LENGTH_BYTES or start[LENGTH_BYTES : LENGTH_BYTES + 1] != b"{":
        return RemapError(
            f"{path} is not a safetensors file: it starts with {start[:16]!r}", "fetch the file again"
        )
    if length > MAX_HEADER:
        return RemapError(
            f"{path} has a header of {length:,} bytes; the format allows {MAX_HEADER:,}",
            "split the shard, or fetch it again if it should not be this large",
        )
    return RemapError(
        f"{path} is truncated: its header takes {length + LENGTH_BYTES:,} bytes but the file has {size:,}",
        "an interrupted download? fetch the file again",
    )


def _pointer(path: str, size: int, text: bytes) -> RemapError:
    real = next((line[5:] for line in text.splitlines() if line.startswith(b"size ")), b"")
    meant = f" to {int(real) / 1e9:.1f} GB" if real.isdigit() else ""
    return RemapError(
        f"{path} is a Git LFS pointer ({size} bytes){meant} that was never downloaded",
        "run `git lfs pull` in the checkpoint, or fetch the file",
    )
