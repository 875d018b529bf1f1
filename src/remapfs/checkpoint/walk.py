"""Every file and directory below a checkpoint's root, links resolved."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from remapfs.checkpoint.model import File, Folder, Note
from remapfs.checkpoint.source import Attributes, identify
from remapfs.errors import RemapError
from remapfs.words import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_READ = 0o444
_TRAVERSE = 0o111
_USER_AND_GROUP = 0o110
# The directories of a repository in the cache of huggingface_hub.
_SNAPSHOTS = "snapshots"
_BLOBS = "blobs"


@dataclass(slots=True)
class Listing:
    """What a walk found; `hidden` are the paths that the rules leave out."""

    files: list[File] = field(default_factory=list)
    folders: list[Folder] = field(default_factory=list)
    hidden: list[str] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)


def walk(root: str, hides: Callable[[str], bool]) -> Listing:
    """List everything below `root`, a resolved path, except the relative paths that `hides` says yes to.

    Symlinks are followed, so that what they point to is presented as it is. None may lead out of `root`, but
    from a snapshot of a Hugging Face cache to a file among its blobs. Raises RemapError for one that does, a
    dangling one, a directory loop and whatever cannot be listed.
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
        status, target = _resolve(root, entry, relative)
        if stat.S_ISDIR(status.st_mode):
            key = (status.st_dev, status.st_ino)
            if key in above:
                raise RemapError(
                    f"{relative} is a link to the directory '{above[key]}' that contains it: a loop",
                    f"remove the link, or leave it out with a rule:  {_hidden(relative)}",
                )
            listing.folders.append(Folder(relative, _attributes(status, _mask(root, target, status))))
            _descend(root, target, relative, {**above, key: relative}, listing, hides)
        elif stat.S_ISREG(status.st_mode):
            attributes = _attributes(status, _mask(root, target, status))
            listing.files.append(File(relative, identify(target, status), attributes))
        else:
            listing.notes.append(Note(relative, "is not a regular file and is left out", healed=False))


def _resolve(root: str, entry: os.DirEntry[str], relative: str) -> tuple[os.stat_result, str]:
    if not entry.is_symlink():
        return entry.stat(follow_symlinks=False), entry.path
    try:
        target = os.path.realpath(entry.path, strict=True)
        status = os.lstat(target)
    except OSError as error:
        raise RemapError(
            f"{relative} is a link to {os.readlink(entry.path)}, which cannot be followed: {error.strerror}",
            "in a Hugging Face cache the blobs must be reachable too: give the directory that holds both, or "
            f"leave the link out with a rule:  {_hidden(relative)}",
        ) from None
    if not _is_inside(root, target) and not (stat.S_ISREG(status.st_mode) and _is_blob(root, target)):
        raise RemapError(
            f"{relative} is a link to {target}, outside the checkpoint: only the snapshots of a Hugging Face "
            "cache may link to a file outside, among their own blobs",
            "give the directory that holds both, put the file itself there (a hard link is one), or leave "
            f"the link out with a rule:  {_hidden(relative)}",
        )
    return status, target


def _hidden(relative: str) -> str:
    return f'[[hide]]  files = ["{printable(relative)}"]'


def _is_inside(root: str, target: str) -> bool:
    return target == root or target.startswith(root.rstrip("/") + "/")


def _is_blob(root: str, target: str) -> bool:
    """Whether `root` is in REPOSITORY/snapshots/REVISION, and `target` is in REPOSITORY/blobs."""
    revision = root
    while (above := os.path.dirname(revision)) != revision:
        if os.path.basename(above) == _SNAPSHOTS:
            return os.path.dirname(target) == os.path.join(os.path.dirname(above), _BLOBS)
        revision = above
    return False


def _mask(root: str, target: str, status: os.stat_result) -> int:
    return 0o777 if _is_inside(root, target) else reachable(status, _parents(target))


def _parents(path: str) -> list[os.stat_result]:
    parents = []
    while path != "/":
        path = os.path.dirname(path)
        parents.append(os.stat(path))
    return parents


def _attributes(status: os.stat_result, mask: int) -> Attributes:
    allowed = _READ | _TRAVERSE
    return Attributes(status.st_mode & allowed & mask, status.st_uid, status.st_gid, status.st_mtime_ns)
