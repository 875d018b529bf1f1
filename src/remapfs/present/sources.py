"""The open source files that a server reads from."""

from __future__ import annotations

import errno
import os
import platform
import re
import resource
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Final

from remapfs.checkpoint.source import ChangedError, open_source
from remapfs.errors import RemapError
from remapfs.observe.failures import FailureLog
from remapfs.plan.extents import Literal, Slice
from remapfs.present.cachestat import is_cached
from remapfs.present.preadv import preadv2

if TYPE_CHECKING:
    from collections.abc import Iterable

    from remapfs.checkpoint.source import Source
    from remapfs.plan.extents import VirtualFile
    from remapfs.plan.model import Plan

# Descriptors left for everything else: /dev/fuse, logs, and one leased source for each thread.
_RESERVED: Final = 128
_RETRIES: Final = 3
_MANY: Final = 1 << 20

# The kernel caches what it serves from the mount, so the source's pages would be the same bytes once more.
# RWF_DONTCACHE drops exactly the pages that a read brought in and leaves those that were there: growth of
# the cache for each byte read was 1.02 against 2.00, at the same speed from a warm source. O_DIRECT would
# ignore a warm source (a third of the speed), and POSIX_FADV_DONTNEED alone would also drop others' pages.
_RWF_DONTCACHE: Final = 0x80  # include/uapi/linux/fs.h
# Linux 6.14 and 6.15 could drop pages that were still being written.
_DONTCACHE_SINCE: Final = (6, 16)
# Before that, and where the file system refuses: read what is cached without waiting, and drop the rest
# after reading it.
_RWF_NOWAIT: Final = 0x8
_NEXT_BEST: Final = {_RWF_DONTCACHE: _RWF_NOWAIT, _RWF_NOWAIT: 0}


class _UnusableError(Exception):
    """A source that cannot be read as planned, noticed at byte `offset`.

    `cause` names the kind, the text says what was found.
    """

    def __init__(self, source: Source, cause: str, offset: int, sentence: str) -> None:
        super().__init__(sentence)
        self.source = source
        self.cause = cause
        self.offset = offset


@dataclass(slots=True)
class _Open:
    """An open source: `flags` are those of preadv2, `leases` counts the reads that use it now."""

    descriptor: int
    flags: int
    leases: int = 0
    splices: bool = True

    def __post_init__(self) -> None:
        """Tell the kernel how the source will be read."""
        self._advise()

    def preadv(self, view: memoryview, start: int) -> int:
        """Read from `start` on into `view`, leaving as little as possible in the page cache."""
        flags = self.flags
        try:
            done = preadv2(self.descriptor, view, start, flags)
        except BlockingIOError:
            done = 0
        except OSError as error:
            if error.errno != errno.EOPNOTSUPP or not flags:
                raise
            self.flags = _NEXT_BEST[flags]
            self._advise()
            return self.preadv(view, start)
        if done == len(view) or flags != _RWF_NOWAIT:
            return done
        # What is cached by now was cached by others. The rest comes from the disk, and leaves again.
        start += done
        more = os.preadv(self.descriptor, [view[done:]], start)
        os.posix_fadvise(self.descriptor, start, more, os.POSIX_FADV_DONTNEED)
        return done + more

    def splice(self, header: bytes, piece: Slice, pipe: int, flags: int) -> int:
        """Put a header and cached pages into a pipe; give how many bytes are in it afterwards."""
        done = 0
        try:
            # What is not cached would stay in the cache, beside the same bytes in the mount's.
            if not self.splices or not is_cached(self.descriptor, piece.offset, piece.length):
                return 0
            done = os.write(pipe, header)
            while left := len(header) + piece.length - done:
                start = piece.offset + piece.length - left
                more = os.splice(self.descriptor, pipe, left, offset_src=start, flags=flags)
                if not more:
                    break
                done += more
        except BlockingIOError:
            return done
        except OSError as error:
            # Not supported here, and not a failure of this range: it is not tried again.
            self.splices = error.errno not in (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)
        return done

    def _advise(self) -> None:
        # With RWF_NOWAIT, the source's own read-ahead would bring in pages that look as if others had.
        random = self.flags == _RWF_NOWAIT
        advice = os.POSIX_FADV_RANDOM if random else os.POSIX_FADV_NORMAL
        os.posix_fadvise(self.descriptor, 0, 0, advice)


class SourcePool:
    """Read slices of many sources from many threads.

    All sources are opened at once if the limit on open files allows, which pins their inodes; otherwise
    they are opened when needed and the least recently used is closed. No lock is held during I/O, and
    no descriptor has a position. `limit` is the number of open sources, by default what the process may
    open. Raises RemapError if a source is gone or not what it was.
    """

    def __init__(self, sources: Iterable[Source], limit: int | None = None) -> None:
        wanted = tuple(dict.fromkeys(sources))
        self._limit = limit or max(_raise_limit() - len(list(Path("/proc/self/fd").iterdir())) - _RESERVED, 1)
        self._open: OrderedDict[Source, _Open] = OrderedDict()
        self._lock = Lock()
        self.failures = FailureLog()
        self._flags = _RWF_DONTCACHE if _kernel_version() >= _DONTCACHE_SINCE else _RWF_NOWAIT
        try:
            for source in wanted:
                self._release(self._acquire(source, 0))
        except _UnusableError as error:
            self.close()
            raise RemapError(
                f"{error.source.path}: {error}", "plan again once the checkpoint is complete"
            ) from error

    @property
    def opened(self) -> int:
        """How many sources are open now."""
        return len(self._open)

    def read_into(self, file: VirtualFile, offset: int, size: int, buffer: memoryview) -> int:
        """Read `size` bytes of `file` from `offset` on into `buffer`; the result is smaller only at its end.

        Raises OSError with EIO, and logs it once for each source and cause, then by number, if a source
        changed or cannot be read.
        """
        done = 0
        try:
            for piece in file.pieces(offset, size):
                match piece:
                    case Literal():
                        buffer[done : done + piece.length] = piece.data
                    case Slice():
                        self._read(piece.source, piece.offset, buffer[done : done + piece.length])
                done += piece.length
        except _UnusableError as error:
            self.failures.report(error.source.path, error.cause, error.offset, str(error))
            raise OSError(errno.EIO, str(error), error.source.path) from error
        return done

    def splice(self, header: bytes, piece: Slice, pipe: int, flags: int) -> int:
        """Put a header and a slice into a pipe, if all its pages are cached; give the bytes that are in it.

        They are fewer, or none, if not all are cached, the pipe is too small, the file system cannot do it,
        or the source is not what it was: `read_into` says which.
        """
        try:
            entry = self._acquire(piece.source, piece.offset)
        except _UnusableError:
            return 0
        try:
            done = entry.splice(header, piece, pipe, flags)
            # Compared after the pages are held, so that a write which began before is noticed.
            return 1 if done and piece.source.changed(os.fstat(entry.descriptor)) else done
        finally:
            self._release(entry)

    def close(self) -> None:
        """Close every source; no read may be running."""
        with self._lock:
            entries = list(self._open.values())
            self._open.clear()
        for entry in entries:
            os.close(entry.descriptor)

    def _read(self, source: Source, start: int, view: memoryview) -> None:
        entry = self._acquire(source, start)
        try:
            done = entry.preadv(view, start)
            retries = _RETRIES
            while done < len(view) and retries:
                more = os.preadv(entry.descriptor, [view[done:]], start + done)
                done += more
                retries -= not more
            # Compared after the read, so that a write which began before the read ended is noticed.
            difference = source.changed(os.fstat(entry.descriptor))
        except OSError as error:
            sentence = f"cannot be read at byte {start}: {error.strerror}"
            raise _UnusableError(source, "unreadable", start, sentence) from error
        finally:
            self._release(entry)
        if difference:
            sentence = f"changed since it was planned: {difference} (seen when reading at byte {start})"
            raise _UnusableError(source, "changed", start, sentence)
        if done < len(view):
            sentence = f"gives no bytes at byte {start + done}"
            raise _UnusableError(source, "short", start + done, sentence)

    def _acquire(self, source: Source, start: int) -> _Open:
        with self._lock:
            entry = self._open.get(source)
            if entry is not None:
                self._open.move_to_end(source)
                entry.leases += 1
                return entry
        opened = _Open(_open_verified(source, start), self._flags)
        with self._lock:
            entry = self._open.setdefault(source, opened)
            entry.leases += 1
            unneeded = self._evict()
        if entry is not opened:  # another thread was faster
            unneeded.append(opened.descriptor)
        for descriptor in unneeded:
            os.close(descriptor)
        return entry

    def _release(self, entry: _Open) -> None:
        with self._lock:
            entry.leases -= 1
            unneeded = self._evict()
        for descriptor in unneeded:
            os.close(descriptor)

    def _evict(self) -> list[int]:
        """Forget idle sources, the least recently used first, down to the limit; return their descriptors."""
        excess = len(self._open) - self._limit
        if excess <= 0:
            return []
        idle = [source for source, entry in self._open.items() if not entry.leases][:excess]
        return [self._open.pop(source).descriptor for source in idle]


def sources_of(plan: Plan) -> tuple[Source, ...]:
    """List the sources that a plan's files take bytes from, each once."""
    slices = (extent for file in plan.files for extent in file.extents if isinstance(extent, Slice))
    return tuple(dict.fromkeys(extent.source for extent in slices))


def _open_verified(source: Source, start: int) -> int:
    try:
        return open_source(source)
    except OSError as error:
        raise _UnusableError(source, "unreadable", start, f"cannot be opened: {error.strerror}") from error
    except ChangedError as error:
        raise _UnusableError(source, "changed", start, str(error)) from error


def _raise_limit() -> int:
    """Raise the soft limit on open files to the hard one, and return it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return _MANY if hard == resource.RLIM_INFINITY else hard


def _kernel_version() -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", platform.release())[:2])
