"""The plan: everything that will be seen, decided before anything is mounted."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from remapfs.checkpoint.header import Tensor
    from remapfs.checkpoint.model import Shard
    from remapfs.plan.extents import VirtualFile
    from remapfs.plan.tree import Directory


class Kind(StrEnum):
    """What became of something unusual that was found."""

    HEALED = "healed"
    WARNED = "warned"
    LEFT = "left"


@dataclass(frozen=True, slots=True)
class Finding:
    """Something unusual in the checkpoint.

    `kind` says what became of it, `text` is a sentence about `file`.
    """

    kind: Kind
    file: str
    text: str


@dataclass(frozen=True, slots=True)
class PlannedShard:
    """What a shard's tensors are called: `names` are those of `shard.header.tensors`, None where dropped.

    `aliases` are (position of the tensor, further name).
    """

    shard: Shard
    names: tuple[str | None, ...]
    aliases: tuple[tuple[int, str], ...]
    rewritten: bool

    def presented_names(self) -> Sequence[str]:
        """List the new names alone: dropped ones left out, aliases last."""
        kept = [name for name in self.names if name is not None]
        return [*kept, *(name for _, name in self.aliases)] if self.aliases else kept

    def presented(self) -> Iterator[tuple[Tensor, str]]:
        """Yield every tensor that is presented with its new name: dropped ones left out, aliases last."""
        tensors = self.shard.header.tensors
        for tensor, name in zip(tensors, self.names, strict=True):
            if name is not None:
                yield tensor, name
        for position, name in self.aliases:
            yield tensors[position], name


@dataclass(frozen=True, slots=True)
class RuleHits:
    """How often a rule matched: tensors for rename, drop and alias, files for hide and json."""

    rule: str
    text: str
    hits: int


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A JSON file that is presented with another text."""

    path: str
    before: bytes
    after: bytes


@dataclass(frozen=True, slots=True)
class Plan:
    """The immutable result of checkpoint + rules; presenters read `files` and `directories` only.

    `root` is the source directory, resolved. Files and directories are sorted by path;
    the first directory is the root, with the empty path.
    """

    root: str
    files: tuple[VirtualFile, ...]
    directories: tuple[Directory, ...]
    findings: tuple[Finding, ...]
    shards: tuple[PlannedShard, ...] = ()
    rules: tuple[RuleHits, ...] = ()
    rewrites: tuple[Rewrite, ...] = ()

    def without_names(self) -> Plan:
        """Leave out what only a person asks for: a mount of 280,000 tensors need not remember their names."""
        return replace(self, shards=(), rewrites=())
