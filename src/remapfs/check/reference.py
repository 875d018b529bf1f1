"""What a reader wants: the tensors of another checkpoint, of an index, or of a list of names."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from remapfs.checkpoint import Attributes, IndexMode, read_checkpoint
from remapfs.checkpoint.index import SUFFIX, parse_index
from remapfs.checkpoint.model import File
from remapfs.checkpoint.scan import SHARD_SUFFIX, read_header
from remapfs.checkpoint.source import identify
from remapfs.checkpoint.walk import walk
from remapfs.errors import RemapError
from remapfs.words import count

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from remapfs.checkpoint.model import Index, Shard

_COMMENT = "#"


class Wanted(NamedTuple):
    """What is known of a wanted tensor: None where only its name is."""

    dtype: str | None
    shape: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class Reference:
    """The tensors that are wanted, by name.

    `what` says in a few words what they were read from; `notes` are sentences about it. A name of a component
    in a sub-directory has that directory and a slash before it.
    """

    what: str
    tensors: Mapping[str, Wanted]
    notes: tuple[str, ...] = ()


def read_reference(path: str) -> Reference:
    """Read what is wanted from a checkpoint directory, a shard, an index or a text file of names.

    A directory whose shards are not all there gives the names that its indexes list. Raises RemapError where
    there is nothing to compare with.
    """
    given = Path(path)
    try:
        if given.is_dir():
            return _directory(path)
        if path.endswith(SHARD_SUFFIX):
            return _shard(given)
        return _text(path, given.read_bytes())
    except OSError as error:
        raise RemapError(
            f"cannot read the reference {path}: {error.strerror}",
            "give a checkpoint directory, a shard, an index JSON or a text file of names",
        ) from None


def component(shard: Shard) -> str:
    """Write what stands before a shard's names: the directory of its component, where there are several."""
    folder = posixpath.dirname(shard.namespace) if shard.indexed else shard.namespace
    return f"{folder}/" if folder else ""


def _directory(path: str) -> Reference:
    files = {file.path: file for file in walk(str(Path(path).resolve()), lambda _: False).files}
    indexes = [
        parse_index(file, Path(file.source.path).read_bytes())
        for name, file in files.items()
        if name.endswith(SUFFIX)
    ]
    absent = {shard for index in indexes for shard in index.spelling if shard not in files}
    if absent:
        return _absent(path, indexes, absent)
    checkpoint = read_checkpoint(path, mode=IndexMode.AUTHORITATIVE)
    wanted = {
        before + tensor.name: Wanted(tensor.dtype, tensor.shape)
        for shard, before in ((shard, component(shard)) for shard in checkpoint.shards)
        for tensor in shard.header.tensors
    }
    return Reference(f"the checkpoint {path}", wanted)


def _absent(path: str, indexes: Iterable[Index], absent: set[str]) -> Reference:
    wanted: dict[str, Wanted] = {}
    for index in indexes:
        folder = posixpath.dirname(index.file.path)
        wanted |= {(f"{folder}/{name}" if folder else name): Wanted(None, None) for name in index.weight_map}
    note = (
        f"{count(len(absent), 'shard')} of {path} not there: only names were compared, not shapes or dtypes"
    )
    return Reference(f"the index of {path}", wanted, (note,))


def _shard(path: Path) -> Reference:
    header = read_header(_file(path))
    return Reference(f"the shard {path}", {t.name: Wanted(t.dtype, t.shape) for t in header.tensors})


def _file(path: Path) -> File:
    status = path.stat()
    attributes = Attributes(status.st_mode & 0o444, status.st_uid, status.st_gid, status.st_mtime_ns)
    return File(path.name, identify(str(path), status), attributes)


def _text(path: str, text: bytes) -> Reference:
    if text.lstrip()[:1] == b"{":
        index = parse_index(_file(Path(path)), text)
        return Reference(f"the index {path}", dict.fromkeys(index.weight_map, Wanted(None, None)))
    try:
        lines = [line.strip() for line in text.decode().splitlines()]
    except UnicodeDecodeError:
        raise RemapError(
            f"the reference {path} is neither an index nor a text file of names",
            "give a checkpoint directory, a shard, an index JSON or a text file with one name a line",
        ) from None
    names = [line for line in lines if line and not line.startswith(_COMMENT)]
    odd = next((name for name in names if not name.isprintable() or " " in name), None)
    if odd is not None:
        raise RemapError(
            f"the reference {path} has a line that is no tensor name: '{odd[:80]}'", "write one name a line"
        )
    if not names:
        raise RemapError(f"the reference {path} names no tensor", "write one name a line")
    return Reference(f"the names in {path}", dict.fromkeys(names, Wanted(None, None)))
