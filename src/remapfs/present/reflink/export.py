"""A plan written out as a real directory."""

from __future__ import annotations

import contextlib
import os
import stat
import threading
import time
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from remapfs.errors import RemapError, RuntimeFailure
from remapfs.present.reflink.cloning import block_size, probe
from remapfs.present.reflink.destination import (
    check_destination,
    check_earlier,
    check_space,
    claimed,
    remove_partial,
)
from remapfs.present.reflink.state import State, digest_of_plan, exported_files, sync_directory
from remapfs.present.reflink.steps import Reflink, unaligned, untouched
from remapfs.present.reflink.writing import How, Written, set_attributes, write_file
from remapfs.words import count

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from remapfs.checkpoint.source import Source
    from remapfs.plan.extents import VirtualFile
    from remapfs.plan.model import Plan

_THREADS: Final = 4
_REFRESH: Final = 0.2
_SAVE_EVERY: Final = 1.0
_OWNER_MAY: Final = stat.S_IRWXU


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """What a user may choose: how bytes are shared, and hard links for files that nothing is changed in.

    `asked` are the command-line options that the plan was made with, which the export remembers.
    """

    reflink: Reflink = Reflink.AUTO
    link: bool = False
    asked: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Exported:
    """What an export did: numbers of files, and bytes.

    `kept` files were complete already, `linked` ones are hard links. `shared` bytes take no room, nor do
    `holes`; `refused` are the reasons why some were copied and not shared.
    """

    root: str
    files: int
    kept: int
    linked: int
    shared: int
    copied: int
    holes: int
    refused: tuple[str, ...]


class _StoppedError(Exception):
    """The run is to end, for a signal or for what failed elsewhere."""


def export_plan(
    plan: Plan,
    directory: str,
    options: ExportOptions,
    progress: Callable[[str, int, int], None] = lambda *_: None,
    stop: threading.Event | None = None,
) -> Exported:
    """Write the files of `plan` to `directory`, a new one, an empty one or one that an earlier run began.

    Once `stop` is set it ends early, with RuntimeFailure, and can be gone on with. Raises RemapError before
    anything is written if it cannot be, RuntimeFailure for what goes wrong later or where room is missing.
    """
    path = check_destination(plan, directory)
    files = exported_files(plan)
    digest = digest_of_plan(plan)
    written: list[Written] = []
    with claimed(path) as made:
        try:
            state = State.read(path)
            check_earlier(path, ours=state.plan if state else None, wanted=digest)
            pending = tuple(file for file in files if state is None or not state.has(path, file))
            remove_partial(path, pending)
            block = block_size(path)
            refused = _refused(pending, path, block, options.reflink)
            uncloneable = None if options.reflink is Reflink.NEVER else refused
            if options.link:
                device = os.stat(path).st_dev
                taking_room = [file for file in pending if not _can_link(file, device)]
            else:
                taking_room = list(pending)
            check_space(path, taking_room, block, uncloneable)
            if state is None:
                state = State(plan.root, digest, made, asked=options.asked)
            if pending or not state.complete:
                run = _Run(plan, state, path, sum(file.size for file in pending), progress, stop)
                how = How(path, options.reflink, block, uncloneable, options.link, run.advance)
                run.write(pending, how)
                run.finish()
                written = run.written
        except OSError as error:
            raise _failure(path, error) from error
    reasons = dict.fromkeys([*refused.values(), *(text for each in written for text in sorted(each.refused))])
    return Exported(
        path,
        len(files),
        len(files) - len(pending),
        sum(each.linked for each in written),
        sum(each.shared for each in written),
        sum(each.copied for each in written),
        sum(each.holes for each in written),
        tuple(reasons),
    )


def _can_link(file: VirtualFile, device: int) -> bool:
    source = untouched(file)
    return source is not None and source.dev == device


def _refused(files: Sequence[VirtualFile], path: str, block: int, reflink: Reflink) -> Mapping[Source, str]:
    """Find the sources that cannot be cloned to `path`; with `always`, none may be, nor any other slice."""
    if reflink is Reflink.NEVER:
        return {}
    refused = probe(files, path, block)
    if reflink is not Reflink.ALWAYS:
        return refused
    hint = "--reflink auto copies where it must"
    for source, reason in refused.items():
        raise RemapError(f"{source.path} cannot be cloned to {path}: {reason}", hint)
    for file in files:
        length = unaligned(file, block)
        if length:
            raise RemapError(
                f"{file.path}: {count(length, 'byte')} cannot be cloned: they do not keep their place in the "
                f"blocks of {block:,} bytes, as after a drop",
                hint,
            )
    return {}


class _Run:
    """The work of one run: files in parallel, and the state that says which are complete."""

    def __init__(  # noqa: PLR0913  # each is used throughout the run
        self,
        plan: Plan,
        state: State,
        root: str,
        total: int,
        progress: Callable[[str, int, int], None],
        stop: threading.Event | None,
    ) -> None:
        self.written: list[Written] = []
        self._plan = plan
        self._state = state
        self._root = root
        self._total = total
        self._progress = progress
        self._stop = stop or threading.Event()
        self._failed = threading.Event()
        self._lock = threading.Lock()
        self._done = 0
        self._unsaved: list[Written] = []

    def advance(self, length: int) -> None:
        """Count bytes that are done; raises where the run is to end."""
        with self._lock:
            self._done += length
        if self._stop.is_set() or self._failed.is_set():
            raise _StoppedError

    def write(self, files: Sequence[VirtualFile], how: How) -> None:
        """Write the files; whatever ends it, what is complete is recorded."""
        self._state.complete = False
        self._state.write(self._root)
        for directory in self._plan.directories:
            if directory.path:
                os.makedirs(os.path.join(self._root, directory.path), exist_ok=True)
        with ThreadPoolExecutor(_THREADS, "remapfs-export") as pool:
            try:
                failure = self._wait({pool.submit(self._one, file, how): file for file in files})
            finally:
                self._failed.set()
        self._save()
        if failure is not None:
            raise failure

    def finish(self) -> None:
        """Give directories their attributes, and record that everything is there."""
        self._state.complete = True
        self._state.write(self._root)
        for directory in reversed(self._plan.directories):
            if not directory.path and not self._state.made:
                continue
            descriptor = os.open(os.path.join(self._root, directory.path), os.O_RDONLY | os.O_DIRECTORY)
            try:
                # Who owns an export must be able to remove it.
                set_attributes(descriptor, directory.attributes, directory.attributes.mode | _OWNER_MAY)
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        if self._state.made:
            with contextlib.suppress(PermissionError):  # whoever may make a directory may not always list it
                sync_directory(os.path.dirname(self._root))

    def _one(self, file: VirtualFile, how: How) -> Written:
        self.advance(0)
        return write_file(file, how)

    def _wait(self, running: dict[Future[Written], VirtualFile]) -> RemapError | None:
        """Wait until no file is being written; the first failure ends the others, and is returned."""
        failure: RemapError | None = None
        left = set(running)
        saved = time.monotonic()
        while left:
            done, left = wait(left, _REFRESH, FIRST_COMPLETED)
            for future in done:
                if future.cancelled():
                    continue
                error = future.exception()
                if error is None:
                    self._note(future.result())
                elif failure is None:
                    self._failed.set()
                    for other in left:
                        other.cancel()
                    failure = self._told(error, running[future])
            if time.monotonic() - saved > _SAVE_EVERY:
                self._save()
                saved = time.monotonic()
            self._progress("exporting", self._done, self._total)
        return failure

    def _told(self, failure: BaseException, file: VirtualFile) -> RemapError:
        match failure:
            case _StoppedError():
                return RuntimeFailure(
                    f"stopped before the export to {self._root} was complete",
                    "the same command goes on where it ended",
                )
            case RemapError():
                return failure
            case OSError():
                return _failure(os.path.join(self._root, file.path), failure)
            case _:
                raise failure

    def _note(self, written: Written) -> None:
        self._state.files[written.path] = written.size, written.mtime_ns
        self.written.append(written)
        self._unsaved.append(written)

    def _save(self) -> None:
        """Record what is complete, once its names are on disk."""
        for folder in sorted({os.path.dirname(os.path.join(self._root, w.path)) for w in self._unsaved}):
            sync_directory(folder)
        self._unsaved.clear()
        self._state.write(self._root)


def _failure(path: str, error: OSError) -> RuntimeFailure:
    where = f" ({error.filename})" if error.filename not in (None, path) else ""
    return RuntimeFailure(
        f"cannot export {path}: {error.strerror}{where}",
        "once that is put right, the same command goes on where it ended",
    )
