"""The plan: everything that will be seen, decided before anything is mounted."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from remapfs.plan.extents import VirtualFile
    from remapfs.plan.tree import Directory


class Kind(StrEnum):
    """What became of something unusual that was found."""

    HEALED = "healed"
    WARNED = "warned"
    LEFT = "left"


@dataclass(frozen=True, slots=True)
class Finding:
    """Something unusual in the checkpoint: `what` became of it, in which file, and a sentence for the user."""

    kind: Kind
    file: str
    text: str


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
