"""The directory that an export goes to: whether it may, and whether it has room."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shlex
import stat
from typing import TYPE_CHECKING, Final

from remapfs.errors import RemapError, RuntimeFailure
from remapfs.present.reflink.copying import data_ranges
from remapfs.present.reflink.state import STATE, partial_path
from remapfs.present.reflink.steps import Clone, Copy, Write, steps_of
from remapfs.present.sources import sources_of

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator

    from remapfs.checkpoint.source import Source
    from remapfs.plan.extents import VirtualFile
    from remapfs.plan.model import Plan

# The top of every ext4 file system has lost+found; a state that never got its name is of a run that was
# killed before it wrote anything else.
_IGNORED: Final = {"lost+found", os.path.basename(partial_path("", STATE))}


def check_destination(plan: Plan, directory: str) -> str:
    """Check that `directory` can be made or filled, and return its resolved path.

    Raises RemapError where it is no directory, has no parent, or holds the source or lies in it.
    """
    path = os.path.realpath(directory)
    if path != plan.root and os.path.commonpath((plan.root, path)) == plan.root:
        raise RemapError(
            f"an export to {path} would write into its own source {plan.root}", "give a directory outside"
        )
    for inside in (plan.root, *(source.path for source in sources_of(plan))):
        if os.path.commonpath((inside, path)) == path:
            raise RemapError(
                f"an export to {path} would lie over its own source {inside}", "give another place"
            )
    try:
        status = os.stat(path)
    except FileNotFoundError:
        parent = os.path.dirname(path)
        if not os.path.isdir(parent):
            raise RemapError(
                f"the directory {parent} does not exist", f"mkdir -p {shlex.quote(parent)}"
            ) from None
    except OSError as error:
        raise RemapError(
            f"cannot export to {path}: {error.strerror}", "give a directory of your own"
        ) from error
    else:
        if not stat.S_ISDIR(status.st_mode):
            raise RemapError(
                f"cannot export to {path}: it is not a directory", "give a new or empty directory"
            )
    place = path if os.path.isdir(path) else os.path.dirname(path)
    if not os.access(place, os.W_OK | os.X_OK):
        raise RemapError(f"cannot write to {place}", "give a directory of your own")
    return path


def check_earlier(path: str, *, ours: str | None, wanted: str) -> None:
    """Check what `path` holds; `ours` is the digest of the plan that it is an export of, None if of none.

    Raises RemapError for anything else than an export of the plan `wanted`.
    """
    if ours == wanted:
        return
    if ours is not None:
        raise RemapError(
            f"{path} holds an export of another plan: the source, the rules or the release differ",
            f"give a new directory, or remove that one first: rm -r {shlex.quote(path)}",
        )
    names = sorted(set(os.listdir(path)) - _IGNORED)
    if STATE in names:
        raise RemapError(
            f"{path}/{STATE} cannot be understood", "give a new directory, or remove that one first"
        )
    if names:
        raise RemapError(
            f"{path} is not empty, and not an export of remapfs: it has {names[0]}",
            "give a new or an empty directory",
        )


@contextlib.contextmanager
def claimed(path: str) -> Iterator[bool]:
    """Make the directory if it does not exist, and keep other exports out; gives whether it was made.

    A directory that was made is removed again where nothing was put into it. Raises RemapError.
    """
    made = False
    try:
        with contextlib.suppress(FileExistsError):
            os.mkdir(path)
            made = True
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise RemapError(
            f"cannot export to {path}: {error.strerror}", "give a directory of your own"
        ) from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RemapError(f"another export to {path} is running", "wait for it, or end it") from None
        except OSError:  # not every network file system can lock a directory
            pass
        yield made
    finally:
        os.close(descriptor)
        if made:
            with contextlib.suppress(OSError):  # it is not empty
                os.rmdir(path)


def remove_partial(root: str, files: Iterable[VirtualFile]) -> None:
    """Remove what a run that was killed left half-written."""
    for path in (STATE, *(file.path for file in files)):
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            os.unlink(partial_path(root, path))


def check_space(
    path: str, files: Iterable[VirtualFile], block: int, uncloneable: Container[Source] | None
) -> None:
    """Check that what must be written and copied fits; raises RuntimeFailure before anything is written."""
    needed = sum(_length(file, block, uncloneable) for file in files)
    status = os.statvfs(path)
    free = status.f_bavail * status.f_frsize
    if needed > free:
        raise RuntimeFailure(
            f"{path} has {free:,} bytes free; the export writes {needed:,}",
            "make room, or export to the file system of the source if it shares blocks (XFS, Btrfs)",
        )


def _length(file: VirtualFile, block: int, uncloneable: Container[Source] | None) -> int:
    length = 0
    opened: dict[Source, int] = {}
    with contextlib.ExitStack() as stack:
        for step in steps_of(file, block, uncloneable):
            match step:
                case Write():
                    length += step.length
                case Copy(_, part):
                    if part.source not in opened:
                        opened[part.source] = os.open(part.source.path, os.O_RDONLY | os.O_CLOEXEC)
                        stack.callback(os.close, opened[part.source])
                    length += sum(end - start for start, end in data_ranges(opened[part.source], part))
                case Clone():
                    pass
    return -(-length // block) * block
