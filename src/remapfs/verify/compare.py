"""A directory compared with a plan, file by file, chunk by chunk."""

from __future__ import annotations

import contextlib
import errno
import os
import shlex
import stat
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Final

from remapfs.errors import RemapError, RuntimeFailure
from remapfs.plan.extents import Literal
from remapfs.present.reflink.state import STATE, exported_files
from remapfs.verify.chunks import Share, chunks, sampled
from remapfs.verify.expected import Expected, Part, expect_file, expect_shard
from remapfs.verify.model import Difference, Equal
from remapfs.verify.sides import Sides, read_at
from remapfs.verify.workers import SilentError, Workers
from remapfs.words import count

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence
    from concurrent.futures import Future

    from remapfs.plan.model import Plan, PlannedShard

_THREADS: Final = 4
_UNREADABLE: Final = "lost+found"  # at the top of every ext4 file system, for root alone
_AHEAD: Final = 4 * _THREADS


def verify_plan(
    plan: Plan,
    directory: str,
    sample: int | Share | None = None,
    progress: Callable[[str, int, int], None] = lambda *_: None,
) -> Equal | Difference:
    """Compare the files in `directory` with what `plan`, with its names, presents.

    Gives the first difference. With `sample`, of each file so many MiB, or a share, are read beside its
    header. Raises
    RemapError if `directory` cannot be looked at, RuntimeFailure for what cannot be read or does not answer,
    or a source that changed.
    """
    root = os.path.abspath(directory)
    with Workers(_THREADS) as workers:
        try:
            return _verify(plan, root, sample, progress, workers)
        except SilentError:
            waited = count(round(workers.patience), "second")
            raise RuntimeFailure(
                f"no answer for {waited} from {root}, or from its source {plan.root}",
                "see whether the server of the mount runs, and the disk or file server of the source is well",
            ) from None
        except OSError as error:
            if error.errno == errno.ENOTCONN:
                raise RuntimeFailure(*_dead(root)) from error
            raise RuntimeFailure(
                f"cannot compare {root} with {plan.root}: {error.strerror}"
                + (f" ({error.filename})" if error.filename else ""),
                "see whether the mount still lives and the disk is well",
            ) from error


def _verify(
    plan: Plan,
    root: str,
    sample: int | Share | None,
    progress: Callable[[str, int, int], None],
    workers: Workers,
) -> Equal | Difference:
    workers.call(_check_directory, root)
    files = exported_files(plan)
    shards = {planned.shard.file.path: planned for planned in plan.shards}
    different = workers.call(_compare_paths, root, {file.path for file in files})
    if different is not None:
        return different
    counter = _Counter(sum(file.size for file in files), progress)
    for file in files:
        with Sides(root, file, workers) as sides:
            different = _compare_file(sides, shards.get(file.path), sample, workers, counter)
        if different is not None:
            return different
        counter.passed(file.size)
    tensors = sum(1 for planned in plan.shards for _ in planned.presented())
    return Equal(len(files), len(plan.shards), tensors, counter.compared)


class _Counter:
    """How far a comparison is."""

    def __init__(self, total: int, progress: Callable[[str, int, int], None]) -> None:
        self.compared = 0
        self._total = total
        self._before = 0
        self._progress = progress

    def add(self, path: str, length: int, at: int) -> None:
        """Count bytes that are equal, which end at byte `at` of the file."""
        self.compared += length
        self._progress(f"comparing {path}", self._before + at, self._total)

    def passed(self, size: int) -> None:
        """Leave a file of `size` bytes behind."""
        self._before += size


def _check_directory(root: str) -> None:
    try:
        status = os.stat(root)
    except FileNotFoundError:
        raise RemapError(f"{root} does not exist", "give a mount or an export of remapfs") from None
    except OSError as error:
        if error.errno == errno.ENOTCONN:
            raise RemapError(*_dead(root)) from None
        raise RemapError(f"cannot look at {root}: {error.strerror}", "check the path") from error
    if not stat.S_ISDIR(status.st_mode):
        raise RemapError(f"{root} is not a directory", "give a mount or an export of remapfs")


def _dead(root: str) -> tuple[str, str]:
    return (
        f"the mount at {root} is dead: its server is gone",
        f"clear it (remapfs umount {shlex.quote(root)}) and mount again",
    )


def _compare_paths(root: str, wanted: set[str]) -> Difference | None:
    found = set()

    def fail(error: OSError) -> None:
        # The kernel still knows the root of a mount that died a moment ago.
        if error.errno == errno.ENOTCONN:
            raise RemapError(*_dead(root)) from error
        raise error

    for folder, folders, names in os.walk(root, onerror=fail):
        if folder == root and _UNREADABLE in folders:
            folders.remove(_UNREADABLE)
        found |= {os.path.relpath(os.path.join(folder, name), root) for name in names}
    missing = sorted(wanted - found)
    if missing:
        return Difference(missing[0], "it does not exist")
    more = sorted(found - wanted - {STATE})
    return Difference(more[0], "the plan has no such file") if more else None


def _compare_file(
    sides: Sides,
    planned: PlannedShard | None,
    sample: int | Share | None,
    workers: Workers,
    counter: _Counter,
) -> Difference | None:
    file = sides.file
    size = sides.size
    if planned is None:
        found: Expected | Difference = expect_file(file)
    else:
        found = expect_shard(planned, file, size, sides.read)
    if isinstance(found, Difference):
        return found
    # Names are more telling than sizes, so those come first.
    if size != file.size:
        return Difference(file.path, f"it has {size:,} bytes, and must have {file.size:,}")
    expected = found
    parts: Sequence[Part] = expected.parts if sample is None else sampled(expected.parts, sample)
    for part in parts:
        if not isinstance(part.extent, Literal):
            sides.open_source(part.extent.source)
    with contextlib.closing(_compared(chunks(parts), sides, workers)) as compared:
        for part, offset in compared:
            if offset is not None:
                return _difference(sides, expected, offset)
            counter.add(file.path, part.extent.length, part.start + part.extent.length)
    sides.check_sources()
    return None


def _compared(
    parts: Iterator[Part], sides: Sides, workers: Workers
) -> Generator[tuple[Part, int | None], None, None]:
    """Compare parts at the same time, a few ahead; gives each in its order, with its first different byte."""
    running: deque[tuple[Part, Future[int | None]]] = deque()
    compare = partial(_first_different, sides)
    try:
        for part in parts:
            running.append((part, workers.submit(compare, part)))
            if len(running) == _AHEAD:
                first, future = running.popleft()
                yield first, workers.result(future)
        while running:
            first, future = running.popleft()
            yield first, workers.result(future)
    finally:
        workers.give_up(future for _, future in running)


def _first_different(sides: Sides, part: Part) -> int | None:
    """Compare one part in a worker; gives the first byte of the file that differs."""
    extent = part.extent
    found = read_at(sides.presented, part.start, extent.length)
    if isinstance(extent, Literal):
        wanted = extent.data
    else:
        wanted = read_at(sides.open_source(extent.source), extent.offset, extent.length)
    if found == wanted:
        return None
    # As numbers, the lowest bit that differs is in the first byte that differs.
    different = int.from_bytes(found, "little") ^ int.from_bytes(wanted, "little")
    return (
        part.start + ((different & -different).bit_length() - 1) // 8
        if different
        else part.start + len(found)
    )


def _difference(sides: Sides, expected: Expected, offset: int) -> Difference:
    found = sides.read(offset, 1)
    what = f"0x{found[0]:02x}" if found else "nothing"
    place = expected.tensor_at(offset)
    where = f"byte {place[1]:,} of the tensor, " if place else ""
    text = f"{where}byte {offset:,} of the file is {what}, not what the source has"
    return Difference(sides.file.path, text, place[0] if place else None, offset)
