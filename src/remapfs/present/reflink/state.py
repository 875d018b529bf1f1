"""What an export leaves in its directory, so that a second run goes on where the first ended."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from remapfs.plan.extents import Literal

if TYPE_CHECKING:
    from collections.abc import Iterable

    from remapfs.plan.extents import VirtualFile
    from remapfs.plan.model import Plan
    from remapfs.plan.tree import Directory

STATE: Final = ".remapfs-export.json"
_PARTIAL: Final = ".remapfs-partial"
_FORMAT: Final = 1
_LONGEST_NAME: Final = 255


@dataclass(slots=True)
class State:
    """Which plan a directory is an export of, and the files that are complete.

    `plan` is its digest; `files` maps paths to (size, mtime_ns) as they were when written; `made` says that
    remapfs made the directory itself; `asked` are the command-line options that the plan was made with.
    """

    source: str
    plan: str
    made: bool
    complete: bool = False
    asked: tuple[str, ...] = ()
    files: dict[str, tuple[int, int]] = field(default_factory=dict)

    @classmethod
    def read(cls, root: str) -> Self | None:
        """Read what an earlier run left in `root`; None if there is nothing of ours."""
        try:
            found: dict[str, Any] = json.loads(Path(root, STATE).read_bytes())
            if found["remapfs_export"] != _FORMAT:
                return None
            files = {path: (int(size), int(mtime)) for path, (size, mtime) in found["files"].items()}
            # The first release did not know the options.
            asked = tuple(str(word) for word in found.get("options", ()))
            return cls(found["source"], found["plan"], found["made"], found["complete"], asked, files)
        except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):
            return None

    def write(self, root: str) -> None:
        """Replace the state in `root`, which is on disk afterwards."""
        content = {
            "remapfs_export": _FORMAT,
            "source": self.source,
            "plan": self.plan,
            "made": self.made,
            "complete": self.complete,
            "options": self.asked,
            "files": self.files,
        }
        partial = partial_path(root, STATE)
        with open(partial, "w", encoding="ascii") as stream:
            json.dump(content, stream, indent=1)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(partial, os.path.join(root, STATE))
        sync_directory(root)

    def has(self, root: str, file: VirtualFile) -> bool:
        """Say whether a file is complete, and still as it was when it was written."""
        try:
            status = os.lstat(os.path.join(root, file.path))
        except OSError:
            return False
        known = self.files.get(file.path)
        return known == (status.st_size, status.st_mtime_ns) and status.st_size == file.size


def partial_path(root: str, path: str) -> str:
    """Name the file in which `path` below `root` grows until it is complete."""
    folder, _, name = path.rpartition("/")
    partial = f".{name}{_PARTIAL}"
    if len(os.fsencode(partial)) > _LONGEST_NAME:
        partial = f".{hashlib.sha256(os.fsencode(name)).hexdigest()}{_PARTIAL}"
    return os.path.join(root, folder, partial)


def digest_of(files: Iterable[VirtualFile], directories: Iterable[Directory]) -> str:
    """Give 64 hex digits that differ wherever two plans, or the sources below them, do."""
    digest = hashlib.sha256()
    for directory in directories:
        digest.update(repr(directory).encode())
    for file in files:
        digest.update(repr((file.path, file.attributes)).encode())
        for extent in file.extents:
            if isinstance(extent, Literal):
                digest.update(hashlib.sha256(extent.data).digest())
            else:
                # The device's number may be another one after the next boot.
                source = extent.source
                identity = source.path, source.size, source.mtime_ns, source.ino, extent.offset, extent.length
                digest.update(repr(identity).encode())
    return digest.hexdigest()


def digest_of_plan(plan: Plan) -> str:
    """Give the digest of all that is exported of a plan."""
    return digest_of(exported_files(plan), plan.directories)


def exported_files(plan: Plan) -> tuple[VirtualFile, ...]:
    """List the files of a plan that is exported: the source may be an export itself, with a state."""
    return tuple(file for file in plan.files if file.path != STATE)


def sync_directory(path: str) -> None:
    """Bring the names in a directory to the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
