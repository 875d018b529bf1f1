"""Where an image lies while it is mounted, and what its mount is called."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import platform
import shutil
import tempfile
from enum import StrEnum
from typing import TYPE_CHECKING, BinaryIO, Final

from remapfs.checkpoint.source import Attributes, Source
from remapfs.errors import RemapError
from remapfs.plan.extents import Slice, VirtualFile
from remapfs.plan.tree import Directory
from remapfs.present.erofs.guards import FUSE, refusal, why_not_from_files
from remapfs.present.erofs.image import write_image
from remapfs.present.erofs.layout import lay_out
from remapfs.present.erofs.ondisk import BLOCK
from remapfs.present.erofs.syscalls import MAX_STRING, MountError, new_mount
from remapfs.present.mountpoint import EROFS_SOURCE
from remapfs.present.options import LOGGER

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# Not /tmp, which is often a tmpfs; /var/lib is writable to root where /var/tmp is missing.
_FOLDERS: Final = ("/var/tmp", "/var/lib")  # noqa: S108  # the image has no name there that one could guess
BDI: Final = "/sys/class/bdi"
"""Where the kernel shows the settings of file systems, read-ahead among them."""
_STATE: Final = "STATE_DIRECTORY"
_PROBE: Final = "probe"
_SHORT: Final = 100
_BUFFER: Final = 1 << 20


class UnsuitableError(Exception):
    """A directory in which no image can lie; the text says why."""


class Backing(StrEnum):
    """What the kernel is given: the image and the sources as files, or loop devices over them."""

    FILES = "files"
    LOOP_DEVICES = "loop devices"


def choose(size: int, folder: str | None, backing: Backing | None) -> tuple[str, Backing]:
    """Find a directory for an image of `size` bytes, and what to give the kernel.

    The directory is `folder`, or else $STATE_DIRECTORY, /var/tmp or /var/lib. Without a wish for `backing`,
    files are used unless this kernel is known, or found, to serve them wrong or not at all. Raises RemapError
    if no directory has room for the image, or if files are wished for and cannot be used.
    """
    state = os.environ.get(_STATE, "").split(":")[0]
    folders = _with_room(size, (folder,) if folder else tuple(filter(None, (state, *_FOLDERS))))
    if backing is Backing.LOOP_DEVICES:
        return folders[0], backing
    release = platform.release()
    reason = why_not_from_files(release)
    refused = []
    for each in () if reason else folders:
        try:
            if reads_past_the_end_fail(each):
                return each, Backing.FILES
        except UnsuitableError as error:
            refused.append(f"{each}: {error}")
        else:
            reason = "mounted from files, it gives zeros where reading a file fails, instead of an error"
            break
    why = f"in this kernel ({release}): {reason}" if reason else f"here: {'; '.join(refused)}"
    if backing is Backing.FILES:
        raise RemapError(f"EROFS cannot be mounted from files {why}", FUSE)
    LOGGER.info("using loop devices, since EROFS cannot be mounted from files %s", why)
    return folders[0], Backing.LOOP_DEVICES


def _with_room(size: int, folders: tuple[str, ...]) -> list[str]:
    found, full = [], []
    for folder in folders:
        try:
            status = os.statvfs(folder)
        except OSError as error:
            full.append(f"{folder}: {error.strerror}")
            continue
        free = status.f_bavail * status.f_frsize
        if free >= size:
            found.append(folder)
        else:
            full.append(f"{folder}: only {free / 1e6:,.0f} MB are free")
    if not found:
        raise RemapError(
            f"no place for the EROFS image of {size / 1e6:,.0f} MB: {'; '.join(full)}",
            f"give another directory (--image-dir DIR), best on ext4, XFS or Btrfs; or {FUSE}",
        )
    return found


def reads_past_the_end_fail(folder: str) -> bool:
    """Find out whether the kernel mounts an image that lies in `folder`, and how it reads past a file's end.

    Kernels without the fix of short reads (7.0, 6.18 and 6.12 stable) give zeros there, and may do so in the
    middle of a file if a reader is killed: False. Raises UnsuitableError if the directory is no place for
    images.
    """
    attributes = Attributes(0o444, 0, 0, 0)
    source = Source(_PROBE, 2 * BLOCK, 0, 0, 0)
    file = VirtualFile.of(_PROBE, [Slice(source, 0, source.size)], attributes)
    layout = lay_out([file], [Directory("", attributes)], chunk=BLOCK)
    with unnamed(folder) as image, unnamed(folder) as device:
        write_image(image, layout, bytes(16), lambda _: b"")
        image.flush()
        device.write(b"p" * (BLOCK + _SHORT))
        device.flush()
        with alone():
            mount = mount_image(path_of(image.fileno()), [path_of(device.fileno())], Backing.FILES)
    try:
        descriptor = os.open(_PROBE, os.O_RDONLY | os.O_CLOEXEC, dir_fd=mount)
        try:
            os.pread(descriptor, BLOCK, BLOCK)
        except OSError as error:
            return error.errno == errno.EIO
        finally:
            os.close(descriptor)
    finally:
        os.close(mount)
    return False


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Keep other remapfs from mounting EROFS meanwhile: only the time tells whose read-ahead is whose."""
    try:
        descriptor = os.open(BDI, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:  # no sysfs, and so no read-ahead to find
        yield
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def path_of(descriptor: int) -> str:
    """Name an open file so that the kernel opens it again: the very file that was checked, at any length."""
    return f"/proc/self/fd/{descriptor}"


@contextlib.contextmanager
def unnamed(folder: str) -> Iterator[BinaryIO]:
    """Open a new file without a name in `folder`: it lives as long as somebody, or a mount, has it open.

    Raises UnsuitableError.
    """
    try:
        descriptor = _nameless(folder)
    except OSError as error:
        raise UnsuitableError(error.strerror) from None
    with os.fdopen(descriptor, "w+b", buffering=_BUFFER) as stream:
        yield stream


def _nameless(folder: str) -> int:
    try:
        return os.open(folder, os.O_RDWR | os.O_TMPFILE | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if error.errno not in {errno.EOPNOTSUPP, errno.EISDIR}:
            raise
    descriptor, path = tempfile.mkstemp(dir=folder, prefix=".remapfs-")
    os.unlink(path)
    return descriptor


def mount_image(source: str, devices: Sequence[str], backing: Backing) -> int:
    """Mount an image and its devices, by their paths in the order of their slots; attached nowhere.

    Returns the mount's descriptor. Raises UnsuitableError if the image's file system cannot back a mount, and
    RemapError if the kernel refuses.
    """
    # Without directio the sources' pages would be cached a second time; loop devices have their own switch.
    flags = [("directio", None)] if backing is Backing.FILES else []
    try:
        return new_mount("erofs", [("source", source), *flags, *(("device", device) for device in devices)])
    except MountError as error:
        if error.number == errno.ENOTBLK:
            raise UnsuitableError(
                "its file system cannot back a mount, as tmpfs and overlay cannot"
            ) from None
        raise refusal(error) from None


@contextlib.contextmanager
def named(root: str, target: str, folder: str) -> Iterator[str]:
    """Give the file or device `target` a name that says what is mounted, which findmnt and umount will see.

    The kernel shows the path by which the image was found, as it was written. It is relative, so that it can
    be `remapfs:` with the path of the checkpoint; it exists, in a directory of its own in `folder`, only as
    long as this context, which is the process's working directory meanwhile.
    """
    name = source_name(root)
    before = os.open(".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    made = tempfile.mkdtemp(dir=folder, prefix=".remapfs-")
    try:
        os.chdir(made)
        if os.path.dirname(name):
            os.makedirs(os.path.dirname(name))
        os.symlink(target, name)
        yield name
    finally:
        os.fchdir(before)
        os.close(before)
        shutil.rmtree(made)


def source_name(root: str) -> str:
    """Name a mount after the checkpoint at `root`; of a path that is too long, the end is kept."""
    encoded = os.fsencode(root.rstrip("/"))
    room = MAX_STRING - len(EROFS_SOURCE)
    if len(encoded) > room:
        kept = encoded[-(room - len("...")) :]
        encoded = b"..." + (kept[kept.find(b"/") :] if b"/" in kept[:-1] else kept)
    return EROFS_SOURCE + os.fsdecode(encoded)
