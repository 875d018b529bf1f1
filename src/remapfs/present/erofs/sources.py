"""The source files that an image takes bytes from, open and checked."""

from __future__ import annotations

import os
import resource
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from remapfs.errors import RemapError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType

    from remapfs.checkpoint.source import Source
    from remapfs.plan.extents import Slice

# Descriptors left for everything else: the image, the mount, logs.
_RESERVED: Final = 64


class OpenSources:
    """Every source open for reading, each the file that was planned; a context manager that closes them.

    Raises RemapError if one is gone or changed, or if the process may not open so many files.
    """

    def __init__(self, sources: Iterable[Source]) -> None:
        self._descriptors: dict[Source, int] = {}
        wanted = tuple(dict.fromkeys(sources))
        _allow(len(wanted))
        try:
            for source in wanted:
                self._descriptors[source] = os.open(source.path, os.O_RDONLY | os.O_CLOEXEC)
            self.check()
        except OSError as error:
            self.close()
            raise RemapError(
                f"{error.filename}: cannot be opened: {error.strerror}",
                "plan again once the checkpoint is complete",
            ) from error
        except BaseException:
            self.close()
            raise

    def descriptor(self, source: Source) -> int:
        """Give the descriptor of an open source."""
        return self._descriptors[source]

    def check(self) -> None:
        """Compare every open file with what was planned; raises RemapError at the first that differs."""
        for source, descriptor in self._descriptors.items():
            difference = source.changed(os.fstat(descriptor))
            if difference:
                raise RemapError(
                    f"{source.path}: changed since it was planned: {difference}",
                    "plan again once the checkpoint is complete",
                )

    def read(self, part: Slice) -> bytes:
        """Read a slice whole; raises RemapError if its source ends before."""
        descriptor = self._descriptors[part.source]
        data = os.pread(descriptor, part.length, part.offset)
        while len(data) < part.length:
            more = os.pread(descriptor, part.length - len(data), part.offset + len(data))
            if not more:
                raise RemapError(f"{part.source.path}: ends at byte {part.offset + len(data):,}")
            data += more
        return data

    def close(self) -> None:
        """Close every source."""
        for descriptor in self._descriptors.values():
            os.close(descriptor)
        self._descriptors.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _allow(files: int) -> None:
    """Raise the limit on open files where it is too low; only root may go above the hard limit."""
    needed = files + len(list(Path("/proc/self/fd").iterdir())) + _RESERVED
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if needed <= soft:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, max(needed, hard)))
    except (OSError, ValueError):
        raise RemapError(
            f"the erofs presenter opens {files:,} files at once, and the limit on open files is {hard:,}",
            f"raise it (ulimit -n {needed}, or LimitNOFILE={needed} in a systemd unit)",
        ) from None
