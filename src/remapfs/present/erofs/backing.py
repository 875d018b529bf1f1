"""Where an image lies while it is mounted, and what its mount is called."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import tempfile
from typing import TYPE_CHECKING, BinaryIO, Final

from remapfs.checkpoint.source import Attributes, Source
from remapfs.errors import RemapError
from remapfs.plan.extents import Slice, VirtualFile
from remapfs.plan.tree import Directory
from remapfs.present.erofs.guards import FUSE, refusal
from remapfs.present.erofs.image import write_image
from remapfs.present.erofs.layout import lay_out
from remapfs.present.erofs.ondisk import BLOCK
from remapfs.present.erofs.syscalls import MAX_STRING, MountError, new_mount
from remapfs.present.mountpoint import EROFS_SOURCE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from remapfs.present.erofs.layout import Layout

# Not /tmp, which is often a tmpfs; /var/lib is writable to root where /var/tmp is missing.
_FOLDERS: Final = ("/var/tmp", "/var/lib")  # noqa: S108  # the image has no name there that one could guess
_STATE: Final = "STATE_DIRECTORY"
_PROBE: Final = "probe"
_SHORT: Final = 100
_BUFFER: Final = 1 << 20


class UnsuitableError(Exception):
    """A directory in which no image can lie; the text says why."""


def choose_folder(layout: Layout, wanted: str | None) -> str:
    """Find a directory that can hold the image: `wanted`, or else $STATE_DIRECTORY, /var/tmp or /var/lib.

    Raises RemapError if none can, or if the kernel serves files wrong.
    """
    state = os.environ.get(_STATE, "").split(":")[0]
    folders = (wanted,) if wanted else tuple(filter(None, (state, *_FOLDERS)))
    reasons = []
    for folder in folders:
        try:
            _check_space(folder, layout.size)
            probe(folder)
        except UnsuitableError as error:
            reasons.append(f"{folder}: {error}")
        else:
            return folder
    raise RemapError(
        f"no place for the EROFS image of {layout.size / 1e6:,.0f} MB: {'; '.join(reasons)}",
        f"give a directory on ext4, XFS or Btrfs (--image-dir DIR), or {FUSE}",
    )


def probe(folder: str) -> None:
    """Find out whether the kernel mounts an image that lies in `folder`, and how it reads past a file's end.

    Kernels without "erofs: fix short reads of file-backed mounts" (7.0, 6.18 and 6.12 stable) give zeros
    there, and may do so in the middle of a file. Raises UnsuitableError if the directory is no place for
    images, and RemapError if the kernel gives zeros.
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
        mount = mount_files(f"/proc/self/fd/{image.fileno()}", [device.fileno()])
    try:
        _check_short_read(mount)
    finally:
        os.close(mount)


def _check_short_read(mount: int) -> None:
    descriptor = os.open(_PROBE, os.O_RDONLY | os.O_CLOEXEC, dir_fd=mount)
    try:
        if os.pread(descriptor, BLOCK, 0) != b"p" * BLOCK:
            raise RemapError("this kernel reads wrong bytes through EROFS", FUSE)
        os.pread(descriptor, BLOCK, BLOCK)
    except OSError as error:
        if error.errno == errno.EIO:
            return
        raise
    finally:
        os.close(descriptor)
    raise RemapError(
        "EROFS in this kernel gives zeros where reading a file fails, instead of an error",
        f"update the kernel (fixed in Linux 7.0, 6.18 and 6.12 stable), or {FUSE}",
    )


@contextlib.contextmanager
def unnamed(folder: str) -> Iterator[BinaryIO]:
    """Open a new file without a name in `folder`: it lives as long as somebody, or a mount, has it open.

    Raises UnsuitableError.
    """
    try:
        descriptor = os.open(folder, os.O_RDWR | os.O_TMPFILE | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise UnsuitableError(error.strerror) from None
    with os.fdopen(descriptor, "w+b", buffering=_BUFFER) as stream:
        yield stream


def mount_files(source: str, devices: Sequence[int]) -> int:
    """Mount an image and its devices, given as descriptors in the order of their slots; attached nowhere.

    Returns the mount's descriptor. Raises UnsuitableError if the image's file system cannot back a mount, and
    RemapError if the kernel refuses.
    """
    # The kernel opens these names again, and so the very files that were checked.
    names = [("device", f"/proc/self/fd/{device}") for device in devices]
    # Without directio the sources' pages would be cached a second time.
    try:
        return new_mount("erofs", [("source", source), ("directio", None), *names])
    except MountError as error:
        if error.number == errno.ENOTBLK:
            raise UnsuitableError("its file system cannot back a mount (tmpfs and overlay cannot)") from None
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


def _check_space(folder: str, needed: int) -> None:
    try:
        status = os.statvfs(folder)
    except OSError as error:
        raise UnsuitableError(error.strerror) from None
    free = status.f_bavail * status.f_frsize
    if free < needed:
        raise UnsuitableError(f"only {free / 1e6:,.0f} MB are free")
