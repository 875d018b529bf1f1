"""The source files that an image takes bytes from, open and checked."""

from __future__ import annotations

import os
import resource
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from remapfs.checkpoint.source import ChangedError, check_unchanged, open_source
from remapfs.errors import RemapError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType

    from remapfs.checkpoint.source import Source
    from remapfs.plan.extents import Slice

# Descriptors left for everything else: the image, the mount, logs.
_RESERVED: Final = 64
_HINT: Final = "plan again once the checkpoint is complete"


class OpenSources:
    """The devices open for reading, each the file that was planned; a context manager that closes them.

    Other sources, which only lend bytes to the image, are opened when they are read. Raises RemapError if a
    source is gone or changed, or if the process may not open so many files.
    """

    def __init__(self, devices: Iterable[Source]) -> None:
        self._descriptors: dict[Source, int] = {}
        wanted = tuple(devices)
        _allow(len(wanted))
        try:
            for source in wanted:
                self._descriptors[source] = _open(source)
        except BaseException:
            self.close()
            raise

    def descriptor(self, device: Source) -> int:
        """Give the descriptor of a device."""
        return self._descriptors[device]

    def check(self) -> None:
        """Compare every device with what was planned; raises RemapError at the first that differs."""
        for source, descriptor in self._descriptors.items():
            _check(source, descriptor)

    def read(self, part: Slice) -> bytes:
        """Read a slice of any source whole; raises RemapError if it is not what it was, or ends before."""
        kept = self._descriptors.get(part.source)
        descriptor = _open(part.source) if kept is None else kept
        try:
            return _read(descriptor, part)
        except OSError as error:
            raise RemapError(f"{part.source.path}: cannot be read: {error.strerror}", _HINT) from error
        finally:
            if kept is None:
                os.close(descriptor)

    def close(self) -> None:
        """Close every device."""
        for descriptor in self._descriptors.values():
            os.close(descriptor)
        self._descriptors.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _open(source: Source) -> int:
    try:
        return open_source(source)
    except OSError as error:
        raise RemapError(f"{source.path}: cannot be opened: {error.strerror}", _HINT) from error
    except ChangedError as error:
        raise RemapError(f"{source.path}: {error}", _HINT) from error


def _check(source: Source, descriptor: int) -> None:
    try:
        check_unchanged(source, descriptor)
    except ChangedError as error:
        raise RemapError(f"{source.path}: {error}", _HINT) from error


def _read(descriptor: int, part: Slice) -> bytes:
    data = os.pread(descriptor, part.length, part.offset)
    while len(data) < part.length:
        more = os.pread(descriptor, part.length - len(data), part.offset + len(data))
        if not more:
            raise RemapError(f"{part.source.path}: ends at byte {part.offset + len(data):,}", _HINT)
        data += more
    return data


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
            f"the erofs presenter opens {files:,} shards at once, and the limit on open files is {hard:,}",
            f"raise it (ulimit -n {needed}, or LimitNOFILE={needed} in a systemd unit)",
        ) from None
