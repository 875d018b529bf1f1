"""What is known of a host, and what is said of it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from remapfs.warm.memory import Memory


class Level(StrEnum):
    """How good a finding is: a problem keeps the presenter that was asked for from working."""

    GOOD = "good"
    NOTE = "note"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Check:
    """One finding: what was looked at, what was found, and what to do about it, empty if nothing."""

    topic: str
    level: Level
    text: str
    do: str = ""


@dataclass(frozen=True, slots=True)
class Works:
    """It was tried and works; `how`, where there is more than one way."""

    how: str = ""


@dataclass(frozen=True, slots=True)
class Refused:
    """It does not work, and what would help."""

    why: str
    do: str = ""


@dataclass(frozen=True, slots=True)
class Storage:
    """Where a checkpoint lies.

    `kind` is the file system's type, `device` its `major:minor`, `read_ahead` in KiB and None where the
    kernel does not show it. `bytes`, `shards` and `tensors` say how much is presented. `erofs` says whether
    the kernel could show these shards by itself, `reflink` whether an export beside them shares their blocks,
    None if there is no place beside them to try. `closed`: who may read the source may not enter the mount.
    """

    path: str
    kind: str
    device: str
    read_ahead: int | None
    bytes: int
    shards: int
    tensors: int
    erofs: Works | Refused
    reflink: Works | Refused | None
    findings: int
    closed: bool


@dataclass(frozen=True, slots=True)
class Host:
    """What a look at this host found.

    `container` names what kind of container this is, if it is one. `open_files` is the hard limit, `pipe` the
    largest pipe in bytes that this user may have. `source` is Refused if the checkpoint cannot be read, None
    if none was given.
    """

    release: str
    user: int
    container: str | None
    device: Works | Refused
    mount: Works | Refused
    allow_other: bool
    fusepy: Works | Refused
    erofs: Works | Refused
    open_files: int
    pipe: int
    memory: Memory
    systemd: bool
    source: Storage | Refused | None
