"""The two sides of a comparison: a presented file, and the sources of its bytes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Self

from remapfs.errors import RuntimeFailure

if TYPE_CHECKING:
    from remapfs.checkpoint.source import Source
    from remapfs.plan.extents import VirtualFile
    from remapfs.verify.workers import Workers


class Sides:
    """A presented file and the sources that its bytes come from, open."""

    def __init__(self, root: str, file: VirtualFile, workers: Workers) -> None:
        self.file = file
        self._workers = workers
        self._sources: dict[Source, int] = {}
        self._descriptors: list[int] = []
        self.path = os.path.join(root, file.path)
        self.presented = self._open(self.path)
        self.size = workers.call(os.fstat, self.presented).st_size

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._workers.stuck:
            self._workers.leave(self._descriptors)
            return
        for descriptor in self._descriptors:
            os.close(descriptor)

    def open_source(self, source: Source) -> int:
        """Open a source once; raises RuntimeFailure if it is not what was planned."""
        if source not in self._sources:
            self._sources[source] = self._open(source.path)
            self._check(source)
        return self._sources[source]

    def check_sources(self) -> None:
        """Raise RuntimeFailure if a source changed while it was read."""
        for source in self._sources:
            self._check(source)

    def read(self, offset: int, size: int) -> bytes:
        """Read from the presented file; fewer bytes only at its end."""
        return self._workers.call(read_at, self.presented, offset, size)

    def _open(self, path: str) -> int:
        descriptor = self._workers.call(os.open, path, os.O_RDONLY | os.O_CLOEXEC)
        self._descriptors.append(descriptor)
        return descriptor

    def _check(self, source: Source) -> None:
        difference = source.changed(self._workers.call(os.fstat, self._sources[source]))
        if difference:
            raise RuntimeFailure(
                f"{source.path}: changed since it was planned: {difference}",
                "verify again once nothing writes to it",
            )


def read_at(descriptor: int, offset: int, size: int) -> bytes:
    """Read from an open file; fewer bytes only at its end."""
    data = os.pread(descriptor, size, offset)
    while len(data) < size:
        more = os.pread(descriptor, size - len(data), offset + len(data))
        if not more:
            break
        data += more
    return data
