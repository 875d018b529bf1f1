"""One file of an export: grown under a temporary name, complete under its own."""

from __future__ import annotations

import contextlib
import errno
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from remapfs.errors import RuntimeFailure
from remapfs.present.reflink.cloning import REFUSALS, clone, reads_back
from remapfs.present.reflink.copying import copy, write_all
from remapfs.present.reflink.state import partial_path
from remapfs.present.reflink.steps import Clone, Copy, Reflink, Write, steps_of, untouched

if TYPE_CHECKING:
    from collections.abc import Callable, Container

    from remapfs.checkpoint.source import Attributes, Source
    from remapfs.plan.extents import VirtualFile

_NEVER_A_LINK: Final = {errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP, errno.ENOSYS}


@dataclass(frozen=True, slots=True)
class How:
    """The way in which files are written below `root`.

    `block` is in bytes; nothing of the sources in `uncloneable` is cloned, with None nothing at all.
    `advance` gets the number of bytes after each part, and may raise to stop.
    """

    root: str
    reflink: Reflink
    block: int
    uncloneable: Container[Source] | None
    link: bool
    advance: Callable[[int], None]


@dataclass(slots=True)
class Written:
    """What became of one file: bytes `shared` with the source, `copied` ones that take room, or a hard link.

    `size` and `mtime_ns` are as stat gives them; `refused` is why something was copied and not shared.
    """

    path: str
    shared: int = 0
    copied: int = 0
    holes: int = 0
    linked: bool = False
    size: int = 0
    mtime_ns: int = 0
    refused: set[str] = field(default_factory=set)


def write_file(file: VirtualFile, how: How) -> Written:
    """Write one file of the plan, and give it its name once it is on disk.

    Raises RuntimeFailure if a source is not what was planned, and OSError; nothing half-written is left.
    """
    written = Written(file.path)
    partial = partial_path(how.root, file.path)
    final = os.path.join(how.root, file.path)
    try:
        source = untouched(file)
        if how.link and source is not None and _link(source, partial):
            written.linked = True
        else:
            _fill(file, partial, how, written)
        status = os.lstat(partial)
        written.size, written.mtime_ns = status.st_size, status.st_mtime_ns
        # Renaming one of two names of an inode to the other does nothing at all.
        if written.linked:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(final)
        os.rename(partial, final)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(partial)
        raise
    if written.linked:
        how.advance(file.size)
    return written


def set_attributes(descriptor: int, attributes: Attributes, mode: int) -> None:
    """Give an open file or directory its owner, `mode` and modification time."""
    if os.geteuid() == 0:
        # A file server may not let root give files away.
        with contextlib.suppress(PermissionError):
            os.fchown(descriptor, attributes.uid, attributes.gid)
    os.fchmod(descriptor, mode)
    os.utime(descriptor, ns=(attributes.mtime_ns, attributes.mtime_ns))


def _link(source: Source, partial: str) -> bool:
    try:
        os.link(source.path, partial, follow_symlinks=False)
    except OSError as error:
        if error.errno in _NEVER_A_LINK:
            return False
        raise
    _check(source, os.lstat(partial))
    return True


def _fill(file: VirtualFile, partial: str, how: How, written: Written) -> None:
    with contextlib.ExitStack() as stack:
        # The partial file of a killed run is begun anew.
        flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
        target = os.open(partial, flags, 0o600)
        stack.callback(os.close, target)
        os.ftruncate(target, file.size)
        opened: dict[Source, int] = {}
        for step in steps_of(file, how.block, how.uncloneable):
            if isinstance(step, Write):
                write_all(target, step.data, step.at)
                written.copied += step.length
                how.advance(step.length)
                continue
            source = step.part.source
            if source not in opened:
                opened[source] = os.open(source.path, os.O_RDONLY | os.O_CLOEXEC)
                stack.callback(os.close, opened[source])
                _check(source, os.fstat(opened[source]))
            if isinstance(step, Clone):
                refused = _clone(step, opened[source], target, how)
                if refused is None:
                    written.shared += step.length
                    how.advance(step.length)
                    continue
                written.refused.add(refused)
                step = Copy(step.at, step.part)  # noqa: PLW2901  # the same bytes, the other way
            data = copy(step, opened[source], target, how.advance, in_kernel=how.reflink is not Reflink.NEVER)
            written.copied += data
            written.holes += step.length - data
        for source, descriptor in opened.items():
            _check(source, os.fstat(descriptor))
        set_attributes(target, file.attributes, file.attributes.mode)
        os.fsync(target)


def _clone(step: Clone, source: int, target: int, how: How) -> str | None:
    """Clone, or say why a copy is needed; with `always`, raise that."""
    try:
        clone(step, source, target)
    except OSError as error:
        if error.errno not in REFUSALS:
            raise
        refused = REFUSALS[error.errno]
    else:
        if reads_back(step, source, target, how.block):
            return None
        refused = "the shared blocks read back otherwise"
    if how.reflink is Reflink.ALWAYS:
        raise RuntimeFailure(f"{step.part.source.path}: {refused}", "--reflink auto copies where it must")
    return refused


def _check(source: Source, status: os.stat_result) -> None:
    difference = source.changed(status)
    if difference:
        raise RuntimeFailure(
            f"{source.path}: changed since it was planned: {difference}",
            "export again, to a new directory, once the checkpoint is complete",
        )
