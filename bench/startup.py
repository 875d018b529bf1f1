"""How long a mount takes to answer, and how much memory its server takes, as seen from outside."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mounts import family, remapfs, serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from subprocess import Popen

_POLL: Final = 0.005
_PATIENCE: Final = 600.0
_SETTLED: Final = 1.0
_SAMPLE: Final = 0.05
_WORD: Final = 8


@dataclass(frozen=True, slots=True)
class Start:
    """One start of a server: seconds until it answers and until all shards were read; bytes of memory."""

    mounted: float
    every_shard_read: float
    peak_memory: int
    steady_memory: int


class _Memory:
    """The most that a process and its descendants have held, sampled again and again.

    Memory that several of them share counts once (the proportional set size). The peak of each process
    alone is the kernel's own, so that none is missed between two samples.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._next = 0.0
        self.peak = 0

    def sample(self) -> None:
        """Look once, but not so often that the looking slows the processes down."""
        now = time.monotonic()
        if now >= self._next:
            self._next = now + _SAMPLE
            self.peak = max(self.peak, self.held(), *self._fields("status", "VmHWM"))

    def held(self) -> int:
        """Add up what the processes hold now, in bytes."""
        return sum(self._fields("smaps_rollup", "Pss"))

    def _fields(self, file: str, field: str) -> Iterator[int]:
        for each in family(self._pid):
            # A process may end between two looks.
            with suppress(FileNotFoundError, ProcessLookupError):
                for line in Path(f"/proc/{each}/{file}").read_text(encoding="utf-8").splitlines():
                    if line.startswith(f"{field}:"):
                        yield int(line.split()[1]) << 10


def start(source: Path, mountpoint: Path, presenter: str) -> Start:
    """Mount `source` once at `mountpoint`, an empty directory, and end the mount again."""
    shards = [mountpoint / path.name for path in sorted(source.glob("*.safetensors"))]
    begin = time.monotonic()
    with serving(remapfs(source, mountpoint, presenter), mountpoint) as process:
        memory = _Memory(process.pid)
        _until_seen(shards[0], process, memory)
        mounted = time.monotonic() - begin
        for path in shards:
            _touch(path)
        read = time.monotonic() - begin
        memory.sample()
        time.sleep(_SETTLED)
        memory.sample()
        return Start(mounted, read, memory.peak, memory.held())


def _until_seen(path: Path, process: Popen[bytes], memory: _Memory) -> None:
    end = time.monotonic() + _PATIENCE
    while True:
        try:
            path.stat()
        except FileNotFoundError:
            if process.poll() is not None or time.monotonic() > end:
                raise SystemExit(f"the server did not show {path}") from None
        else:
            return
        memory.sample()
        time.sleep(_POLL)


def _touch(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        size = os.fstat(descriptor).st_size
        header = int.from_bytes(os.pread(descriptor, _WORD, 0), "little")
        last = os.pread(descriptor, _WORD, size - _WORD)
    finally:
        os.close(descriptor)
    if not 0 < header < size or len(last) != _WORD:
        raise SystemExit(f"{path} is not a shard")
