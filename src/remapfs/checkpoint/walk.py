"""Every file and directory below a checkpoint's root, links resolved."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from remapfs.checkpoint.model import File, Folder, Note
from remapfs.checkpoint.source import Attributes, identify
from remapfs.errors import RemapError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_READ = 0o444
_TRAVERSE = 0o111
_USER_AND_GROUP = 0o110


@dataclass(slots=True)
class Listing:
    """What a walk found; `hidden` are the paths that the rules leave out."""

    files: list[File] = field(default_factory=list)
    folders: list[Folder] = field(default_factory=list)
    hidden: list[str] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)


def walk(root: str, hides: Callable[[str], bool]) -> Listing:
    """List everything below `root`, a resolved path, except the relative paths that `hides` says yes to.

    Symlinks are followed, so that what they point to is presented as it is. Raises RemapError for a dangling
    link, a directory loop and whatever cannot be listed.
    """
    listing = Listing()
    status = os.stat(root)
    allowed = reachable(status, _parents(root))
    listing.folders.append(Folder("", _attributes(status, allowed)))
    _descend(root, root, "", {(status.st_dev, status.st_ino): "."}, listing, hides)
    listing.files.sort(key=lambda file: file.path)
    listing.folders.sort(key=lambda folder: folder.path)
    return listing


def reachable(status: os.stat_result, ancestors: Iterable[os.stat_result]) -> int:
    """Say which permission classes of a file can reach it through its ancestor directories.

    Returns a mask of 0o700, 0o070 and 0o007. A presented file is reached through the mount instead, so a
    class that a closed directory above the source keeps out must be kept out by the presented mode.
    """
    mask = 0o777
    for ancestor in ancestors:
        if ancestor.st_mode & _TRAVERSE == _TRAVERSE:
            continue
        mask &= ~0o007
        if not (ancestor.st_gid == status.st_gid and ancestor.st_mode & _USER_AND_GROUP == _USER_AND_GROUP):
            mask &= ~0o070
        if not (ancestor.st_uid == status.st_uid and ancestor.st_mode & 0o100):
            mask &= ~0o700
    return mask


def _descend(  # noqa: PLR0913  # one recursion; a class would only rename the arguments
    root: str,
    real: str,
    path: str,
    above: dict[tuple[int, int], str],
    listing: Listing,
    hides: Callable[[str], bool],
) -> None:
    try:
        entries = sorted(os.scandir(real), key=lambda entry: entry.name)
    except OSError as error:
        raise RemapError(
            f"cannot list {real}: {error.strerror}", "check its permissions, or hide it"
        ) from None
    for entry in entries:
        relative = f"{path}/{entry.name}" if path else entry.name
        if hides(relative):
            listing.hidden.append(relative)
            continue
        status, target = _resolve(entry, relative)
        if stat.S_ISDIR(status.st_mode):
            key = (status.st_dev, status.st_ino)
            if key in above:
                raise RemapError(
                    f"{relative} is a link to the directory '{above[key]}' that contains it: a loop",
                    'remove the link, or leave it out with a rule:  [[hide]]  files = ["' + relative + '"]',
                )
            listing.folders.append(Folder(relative, _attributes(status, _mask(root, target, status))))
            _descend(root, target, relative, {**above, key: relative}, listing, hides)
        elif stat.S_ISREG(status.st_mode):
            attributes = _attributes(status, _mask(root, target, status))
            listing.files.append(File(relative, identify(target, status), attributes))
        else:
            listing.notes.append(Note(relative, "is not a regular file and is left out", healed=False))


def _resolve(entry: os.DirEntry[str], relative: str) -> tuple[os.stat_result, str]:
    if not entry.is_symlink():
        return entry.stat(), entry.path
    try:
        target = os.path.realpath(entry.path, strict=True)
        return os.stat(target), target
    except OSError as error:
        raise RemapError(
            f"{relative} is a link to {os.readlink(entry.path)}, which cannot be followed: {error.strerror}",
            "in a Hugging Face cache the blobs must be reachable too: give the directory that holds both, or "
            'leave the link out with a rule:  [[hide]]  files = ["' + relative + '"]',
        ) from None


def _mask(root: str, target: str, status: os.stat_result) -> int:
    inside = target.startswith(root.rstrip("/") + "/")
    return 0o777 if inside else reachable(status, _parents(target))


def _parents(path: str) -> list[os.stat_result]:
    parents = []
    while path != "/":
        path = os.path.dirname(path)
        parents.append(os.stat(path))
    return parents


def _attributes(status: os.stat_result, mask: int) -> Attributes:
    allowed = _READ | _TRAVERSE
    return Attributes(status.st_mode & allowed & mask, status.st_uid, status.st_gid, status.st_mtime_ns)
