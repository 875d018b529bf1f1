"""What follows from where a checkpoint lies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from remapfs.doctor.model import Check, Level, Refused, Storage, Works
from remapfs.words import count, size

if TYPE_CHECKING:
    from collections.abc import Iterator

_NETWORK: Final = ("nfs", "nfs4", "lustre", "ceph", "cifs", "smb3", "9p", "virtiofs", "beegfs", "gpfs", "afs")
_LITTLE: Final = 128
_WANTED: Final = 4096


def source(found: Storage | Refused, presenter: str, memory: int) -> Iterator[Check]:
    """Say how good the place of a checkpoint is; `memory` is what the page cache may have, in bytes."""
    match found:
        case Refused(why, do):
            yield Check("source", Level.PROBLEM, why, do)
        case Storage():
            yield _contents(found)
            yield _file_system(found)
            yield from _read_ahead(found)
            yield from _reflink(found)
            yield _cache(found, memory)
            if found.closed and presenter != "fusepy":
                yield Check(
                    "others",
                    Level.NOTE,
                    "a directory above the source does not let everyone through: neither will the mount",
                    f"see which: namei -l {found.path}",
                )


def _contents(found: Storage) -> Check:
    text = f"{count(found.tensors, 'tensor')} in {count(found.shards, 'shard')}, {size(found.bytes)}"
    if found.findings:
        return Check(
            "source",
            Level.NOTE,
            f"{text}; {count(found.findings, 'finding')}",
            f"read them: remapfs plan {found.path}",
        )
    return Check("source", Level.GOOD, text)


def _file_system(found: Storage) -> Check:
    if found.kind in _NETWORK or found.kind.startswith("fuse"):
        return Check(
            "file system",
            Level.NOTE,
            f"{found.kind}: as fast as the server below, and readers wait while that does not answer",
            "vllm serve … --safetensors-load-strategy prefetch, or remapfs warm before the load",
        )
    return Check("file system", Level.GOOD, found.kind)


def _read_ahead(found: Storage) -> Iterator[Check]:
    if found.read_ahead is None:
        return
    text = f"{found.read_ahead:,} KiB on {found.device}"
    if found.read_ahead < _LITTLE:
        yield Check(
            "read-ahead",
            Level.NOTE,
            f"{text}: little for reading from a cold disk",
            f"echo {_WANTED} > /sys/class/bdi/{found.device}/read_ahead_kb",
        )
    else:
        yield Check("read-ahead", Level.GOOD, text)


def _reflink(found: Storage) -> Iterator[Check]:
    match found.reflink:
        case Works():
            text = "an export beside the source shares its blocks: seconds, and no room (remapfs export)"
            yield Check("reflink", Level.GOOD, text)
        case Refused(why, _):
            yield Check("reflink", Level.NOTE, f"{why}: an export would be a copy", "mount instead")
        case None:
            text = "not tried: the directory above the source is on another file system, or not writable"
            yield Check("reflink", Level.NOTE, text)


def _cache(found: Storage, memory: int) -> Check:
    if found.bytes > memory:
        text = f"{size(memory)} of memory for {size(found.bytes)}: a second load reads the disk again"
        return Check("page cache", Level.NOTE, text)
    return Check("page cache", Level.GOOD, f"all of it fits into memory ({size(memory)}): remapfs warm")
