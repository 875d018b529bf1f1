"""Ranges of files copied, by the kernel where it can."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Final

from remapfs.errors import RuntimeFailure
from remapfs.present.options import MIB

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from remapfs.plan.extents import Slice
    from remapfs.present.reflink.steps import Copy

_IN_KERNEL: Final = 32 * MIB
_BUFFER: Final = 4 * MIB
_SECTOR: Final = 512  # the unit of st_blocks, whatever the file system
_REFUSALS: Final = {errno.EXDEV, errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS, errno.EPERM, errno.ETXTBSY}


def copy(step: Copy, source: int, target: int, advance: Callable[[int], None], *, in_kernel: bool) -> int:
    """Copy a range from one open file to another, and return the number of bytes that were no holes.

    Holes are not filled: the target must be new there.

    `in_kernel` allows copy_file_range, which may share blocks. `advance` gets the number of bytes after each
    part, and may raise to stop.
    """
    before = step.part.offset
    copied = 0
    for start, end in data_ranges(source, step.part):
        advance(start - before)
        _copy_data(source, start, target, step.at + start - step.part.offset, end - start, advance, in_kernel)
        copied += end - start
        before = end
    advance(step.part.offset + step.part.length - before)
    return copied


def data_ranges(source: int, part: Slice) -> Iterator[tuple[int, int]]:
    """Give the (start, end) of what is not a hole of an open sparse file; of others, the whole slice."""
    start, end = part.offset, part.offset + part.length
    status = os.fstat(source)
    if status.st_blocks * _SECTOR >= status.st_size:
        yield start, end
        return
    while start < end:
        try:
            data = os.lseek(source, start, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.EINVAL:  # no file system of holes
                yield start, end
            elif error.errno != errno.ENXIO:  # which says that a hole ends the file
                raise
            return
        if data >= end:
            return
        hole = min(os.lseek(source, data, os.SEEK_HOLE), end)
        yield data, hole
        start = hole


def _copy_data(  # noqa: PLR0913  # two ends and a length, as the system call has them
    source: int,
    offset: int,
    target: int,
    at: int,
    length: int,
    advance: Callable[[int], None],
    in_kernel: bool,  # noqa: FBT001  # passed on
) -> None:
    done = 0
    while in_kernel and done < length:
        try:
            more = os.copy_file_range(
                source, target, min(length - done, _IN_KERNEL), offset + done, at + done
            )
        except OSError as error:
            if error.errno not in _REFUSALS:
                raise
            break
        if not more:  # some file systems say nothing else where they cannot
            break
        done += more
        advance(more)
    if done == length:
        return
    buffer = memoryview(bytearray(min(_BUFFER, length - done)))
    while done < length:
        more = os.preadv(source, [buffer[: length - done]], offset + done)
        if not more:
            raise RuntimeFailure(f"the source gives no bytes at byte {offset + done:,}")
        write_all(target, buffer[:more], at + done)
        done += more
        advance(more)


def write_all(target: int, data: memoryview | bytes, at: int) -> None:
    """Write all of `data` to an open file, `at` bytes from its start."""
    view = memoryview(data)
    while view:
        done = os.pwrite(target, view, at)
        view = view[done:]
        at += done
