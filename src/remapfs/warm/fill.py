"""Read files into the page cache, as far as memory allows."""

from __future__ import annotations

import mmap
import os
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Final

from remapfs.errors import RuntimeFailure
from remapfs.present.cachestat import is_cached
from remapfs.warm.memory import memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from remapfs.warm.memory import Memory

THREADS: Final = 4
_STEP: Final = 8 << 20
_BUFFER: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Report:
    """Bytes that were read into the cache, that were there already, and that are left for want of memory."""

    files: int
    warmed: int
    cached: int
    left: int
    seconds: float


@dataclass(frozen=True, slots=True)
class _Piece:
    path: str
    offset: int
    length: int


def fill(
    paths: Sequence[str],
    reserve: int,
    threads: int = THREADS,
    on_progress: Callable[[str, int, int], None] = lambda *_: None,
    look: Callable[[], Memory] = memory,
) -> Report:
    """Read what is not cached, in order, until all is or only `reserve` bytes of memory are available.

    `on_progress` is told what is being read, the bytes done, and of how many. Raises RuntimeFailure with
    file and offset if something cannot be read.
    """
    sizes = [os.stat(path).st_size for path in paths]
    filling = _Filling(sum(sizes), reserve, on_progress, look)
    began = time.monotonic()
    with ThreadPoolExecutor(threads) as pool:
        try:
            # One after the other out of one list, so that the first shards are warm first.
            pieces = _pieces(paths, sizes)
            list(pool.map(lambda _: filling.work(pieces), range(threads)))
        finally:
            filling.stop()
    done = filling.warmed + filling.cached
    return Report(len(paths), filling.warmed, filling.cached, sum(sizes) - done, time.monotonic() - began)


class _Filling:
    """What the threads share."""

    def __init__(
        self,
        total: int,
        reserve: int,
        on_progress: Callable[[str, int, int], None],
        look: Callable[[], Memory],
    ) -> None:
        self.warmed = self.cached = 0
        self._total = total
        self._reserve = reserve
        self._on_progress = on_progress
        self._look = look
        self._lock = Lock()
        self._stopped = False

    def stop(self) -> None:
        """Let every thread end after its piece."""
        self._stopped = True

    def work(self, pieces: Iterator[_Piece]) -> None:
        """Take piece after piece; one thread."""
        buffer = memoryview(mmap.mmap(-1, _BUFFER))
        while not self._stopped:
            with self._lock:
                piece = next(pieces, None)
            if piece is None:
                return
            try:
                self._one(piece, buffer)
            except BaseException:
                self.stop()
                raise

    def _one(self, piece: _Piece, buffer: memoryview) -> None:
        try:
            descriptor = os.open(piece.path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise _unreadable(piece.path, piece.offset, error) from error
        try:
            # The kernel's read-ahead would make the next piece look as if others had cached it.
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)
            cached = _is_cached(descriptor, piece)
            if not cached and not self._has_room(piece.length):
                self.stop()
                return
            if not cached:
                _read(descriptor, piece, buffer)
        finally:
            os.close(descriptor)
        with self._lock:
            if cached:
                self.cached += piece.length
            else:
                self.warmed += piece.length
            self._on_progress(os.path.basename(piece.path), self.warmed + self.cached, self._total)

    def _has_room(self, length: int) -> bool:
        # What has been read counts as available still, but would be dropped for what comes now.
        held = self.warmed + self.cached
        return held + length <= self._look().available - self._reserve


def _pieces(paths: Sequence[str], sizes: Sequence[int]) -> Iterator[_Piece]:
    for path, size in zip(paths, sizes, strict=True):
        for offset in range(0, size, _STEP):
            yield _Piece(path, offset, min(_STEP, size - offset))


def _is_cached(descriptor: int, piece: _Piece) -> bool:
    try:
        return is_cached(descriptor, piece.offset, piece.length)
    except OSError:
        # Not known: reading what is cached already costs little.
        return False


def _read(descriptor: int, piece: _Piece, buffer: memoryview) -> None:
    offset, end = piece.offset, piece.offset + piece.length
    while offset < end:
        try:
            got = os.preadv(descriptor, [buffer[: end - offset]], offset)
        except OSError as error:
            raise _unreadable(piece.path, offset, error) from error
        if not got:
            raise RuntimeFailure(
                f"{piece.path} ends at byte {offset:,}, before its size", "it was changed: look at its source"
            )
        offset += got


def _unreadable(path: str, offset: int, error: OSError) -> RuntimeFailure:
    return RuntimeFailure(
        f"{path}: cannot be read at byte {offset:,}: {error.strerror}", "the log of the mount says why"
    )
