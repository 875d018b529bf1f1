"""The measurements: each one reading of one file system, from caches in a known state."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import caches
import readers

if TYPE_CHECKING:
    from pathlib import Path

    from mounts import Subject


@dataclass(frozen=True, slots=True)
class Case:
    """One way of reading: how, by one reader or one a file `at_once`, and from a cached source or not.

    With `again`, everything has been read once in the same way, and only the second time is measured.
    """

    name: str
    way: str
    at_once: bool = False
    warm: bool = True
    again: bool = False

    def fits(self, subject: Subject) -> bool:
        """Whether it can be done: EROFS that is mounted from files refuses O_DIRECT."""
        return self.way != "direct" or subject.name != "erofs"


CASES: Final = (
    Case("sequential, 1 MiB reads, source warm", "read"),
    Case("sequential, 1 MiB reads, source cold", "read", warm=False),
    Case("sequential, 1 MiB reads, read before", "read", again=True),
    Case("mmap, copied by 1 MiB, source warm", "mmap"),
    Case("mmap, copied by 1 MiB, source cold", "mmap", warm=False),
    Case("8 readers, a file each, source warm", "read", at_once=True),
    Case("O_DIRECT, 8 MiB reads, source warm", "direct"),
)


@dataclass(frozen=True, slots=True)
class Result:
    """What was measured: GB/s, CPU seconds a GB of readers and of server, cached bytes a byte read."""

    speed: float
    reader_cpu: float
    server_cpu: float
    growth: float


def measure(case: Case, subject: Subject, source: list[Path]) -> Result:
    """Bring the caches into the state that the case demands, read every shard and look at what it took."""
    shards = subject.shards()
    groups = [[shard] for shard in shards] if case.at_once else [shards]
    with caches.opened(source) as below, caches.opened(shards if subject.server else ()) as above:
        seen = [*below, *above]
        caches.drop(seen)
        if case.warm:
            # Anew each time: a server may drop what it has served.
            caches.warm(below)
        if case.again:
            readers.run(case.way, groups)
        before, busy = caches.resident(seen), subject.cpu()
        reading = readers.run(case.way, groups)
        gigabytes = reading.size / 1e9
        return Result(
            gigabytes / reading.seconds,
            reading.cpu / gigabytes,
            (subject.cpu() - busy) / gigabytes,
            (caches.resident(seen) - before) / reading.size,
        )


def same_bytes(source: list[Path], subject: Subject) -> None:
    """Check that each shard of the mount ends as its source does."""
    for wanted, shown in zip(source, subject.shards(), strict=True):
        if wanted.name != shown.name or _tail(wanted) != _tail(shown):
            raise SystemExit(f"{subject.name} does not show the bytes of {wanted}")


def _tail(path: Path) -> bytes:
    with path.open("rb") as stream:
        stream.seek(-(1 << 20), os.SEEK_END)
        return stream.read()
