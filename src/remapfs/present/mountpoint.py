"""What is mounted where: checks before a mount, and ending one."""

from __future__ import annotations

import ctypes
import errno
import os
import re
import shutil
import stat
import subprocess
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Final

from remapfs.errors import RemapError, RuntimeFailure
from remapfs.present.options import FILESYSTEM_TYPE
from remapfs.present.sources import sources_of

if TYPE_CHECKING:
    from remapfs.plan.model import Plan

EROFS: Final = "erofs"
EROFS_SOURCE: Final = "remapfs:"
"""What the source of an EROFS mount of ours begins with; the path of the checkpoint follows."""
_LISTED: Final = "remapfs mounts are listed by: findmnt -t fuse.remapfs,erofs"
_MOUNTINFO: Final = Path("/proc/self/mountinfo")
_ESCAPE: Final = re.compile(rb"\\([0-7]{3})")
_DEVICE: Final = "/dev/fuse"
# A server that serves answers at once; one that is being replaced does in less than this.
_ANSWER_SECONDS: Final = 2.0
_KERNEL_SECONDS: Final = 0.3
_EVERYONE: Final = 0o005
_CONTAINER: Final = "docker run --device /dev/fuse --cap-add SYS_ADMIN --security-opt apparmor=unconfined"
# From include/uapi/linux/mount.h, and include/linux/fs.h for the last three.
_MS_RDONLY: Final = 1
_MS_NOSUID: Final = 2
_MS_NODEV: Final = 4
_MNT_FORCE: Final = 1
_MNT_DETACH: Final = 2
_UMOUNT_NOFOLLOW: Final = 8
_LIBC: Final = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class Mount:
    """One line of mountinfo: `device` is `major:minor`, `kind` the file system's type."""

    device: str
    path: str
    kind: str
    source: str

    @property
    def is_ours(self) -> bool:
        """Whether remapfs made it."""
        return self.kind == FILESYSTEM_TYPE or (self.kind == EROFS and self.source.startswith(EROFS_SOURCE))

    @property
    def checkpoint(self) -> str:
        """Which checkpoint a mount of ours shows; of a very long path, EROFS keeps the end."""
        return self.source.removeprefix(EROFS_SOURCE) if self.kind == EROFS else self.source


def parse_mountinfo(text: bytes) -> tuple[Mount, ...]:
    """Read the lines of a mountinfo file, with their octal escapes, in their order."""
    mounts = []
    for line in text.splitlines():
        before, _, after = line.partition(b" - ")
        _, _, device, _, path, *_ = before.split(b" ")
        kind, source, *_ = after.split(b" ")
        mounts.append(Mount(*(_unescape(field) for field in (device, path, kind, source))))
    return tuple(mounts)


def mounts() -> tuple[Mount, ...]:
    """Read what is mounted in this process's mount namespace; a mount comes after those it covers."""
    return parse_mountinfo(_MOUNTINFO.read_bytes())


def mounted_at(path: str) -> Mount | None:
    """Find the topmost mount at `path`, a resolved path."""
    return next((mount for mount in reversed(mounts()) if mount.path == path), None)


def resolve(mountpoint: str) -> str:
    """Make `mountpoint` absolute and follow symlinks, without asking a mount at its end for anything."""
    absolute = Path(mountpoint).absolute()
    path = absolute.parent.resolve() / absolute.name
    return str(path if mounted_at(str(path)) else path.resolve())


def check_mountpoint(plan: Plan, mountpoint: str) -> str:
    """Check that `plan` can be mounted at `mountpoint`, and return its resolved path.

    Raises RemapError for a missing directory, a mount in the way, or a source that it would hide.
    """
    path = resolve(mountpoint)
    mount = mounted_at(path)
    if mount and mount.is_ours:
        # Not stat: the kernel may remember a dead mount, and a stopped server lets nobody go who looks.
        if mount.kind == FILESYSTEM_TYPE and is_dead(path):
            raise _dead(path, mount)
        raise RemapError(
            f"{mount.checkpoint} is already mounted at {path}",
            f"unmount it first (remapfs umount {path}), or choose another mount point",
        )
    try:
        status = Path(path).stat()
    except FileNotFoundError:
        raise RemapError(f"the mount point {path} does not exist", f"mkdir -p {path}") from None
    except OSError as error:
        if error.errno == errno.ENOTCONN:
            raise _dead(path, mount) from None
        raise RemapError(
            f"cannot use the mount point {path}: {error.strerror}", "give an empty directory of your own"
        ) from error
    if not stat.S_ISDIR(status.st_mode):
        raise RemapError(f"the mount point {path} is not a directory", "give an empty directory")
    for inside in (plan.root, *(source.path for source in sources_of(plan))):
        if os.path.commonpath((inside, path)) == path:
            raise RemapError(
                f"a mount at {path} would hide its own source {inside}", "choose a mount point outside"
            )
    return path


def keeps_users_out(plan: Plan) -> bool:
    """Whether the source is open to all but a directory above it, and so the mount, is not."""
    open_to_all = os.stat(plan.root).st_mode & _EVERYONE == _EVERYONE
    return open_to_all and plan.directories[0].attributes.mode & _EVERYONE != _EVERYONE


def unmount(mountpoint: str) -> None:
    """End the remapfs mount at `mountpoint`, alive or dead.

    Raises RemapError if none is there, and RuntimeFailure if it is in use or the host refuses.
    """
    path = resolve(mountpoint)
    mount = mounted_at(path)
    if mount is None:
        raise RemapError(f"nothing is mounted at {path}", _LISTED)
    if not mount.is_ours:
        what = f"{EROFS} of {mount.source}" if mount.kind == EROFS else mount.kind
        raise RemapError(f"the mount at {path} is {what}, not {FILESYSTEM_TYPE}: it is left alone", _LISTED)
    if mount.kind == EROFS and os.geteuid() != 0:
        raise RemapError(f"only root can unmount {path}, an {EROFS} mount", f"sudo remapfs umount {path}")
    try:
        _release_or_clear(path)
    except OSError as error:
        if error.errno == errno.EBUSY:
            raise RuntimeFailure(f"{path} is in use", f"see who uses it: fuser -vm {path}") from None
        raise RuntimeFailure(f"cannot unmount {path}: {error.strerror}") from error


def clear_dead(mountpoint: str) -> None:
    """Clear the mount of ours at `mountpoint` if nobody serves it; do nothing about anything else."""
    path = resolve(mountpoint)
    mount = mounted_at(path)
    # A dead mount says so at once; one that says nothing has its descriptor kept, and will be served again.
    if mount is not None and mount.kind == FILESYSTEM_TYPE and is_dead(path, _KERNEL_SECONDS):
        release(path, lazy=True)


def _release_or_clear(path: str) -> None:
    """Unmount what is not in use, and what is in use but dead."""
    try:
        # Without asking the mount, for asking a server that is stopped would make the mount one in use.
        release(path, lazy=False)
    except OSError as error:
        if error.errno != errno.EBUSY or not is_dead(path):
            raise
        release(path, lazy=True)


def release(path: str, *, lazy: bool) -> None:
    """Unmount what is at `path`; if `lazy`, also when it is in use, which cuts its readers off.

    Raises OSError, with EBUSY if it is in use.
    """
    if os.geteuid() == 0:
        flags = _UMOUNT_NOFOLLOW | (_MNT_FORCE | _MNT_DETACH if lazy else 0)
        if _LIBC.umount2(os.fsencode(path), flags):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), path)
        return
    command = [fusermount(), "-u", *(["-z"] if lazy else []), "--", path]
    run = subprocess.run(  # noqa: S603 - a fixed program; no shell sees the path
        command, capture_output=True, text=True, check=False
    )
    if run.returncode:
        number = errno.EBUSY if os.strerror(errno.EBUSY) in run.stderr else errno.EPERM
        raise OSError(number, run.stderr.strip(), path)


def fusermount() -> str:
    """Find the fusermount3 program, which mounts for users other than root."""
    program = shutil.which("fusermount3")
    if program is None:
        raise RemapError(
            "fusermount3 is not installed, and only root can mount without it",
            "install the package fuse3 (Debian, Ubuntu, Fedora, RHEL), or run as root",
        )
    return program


def open_device() -> int:
    """Open /dev/fuse for reading and writing, and return the descriptor.

    Raises RemapError if this host or container has none.
    """
    try:
        return os.open(_DEVICE, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        raise RemapError(
            f"{_DEVICE} does not exist", f"load the module: modprobe fuse; in a container: {_CONTAINER}"
        ) from None
    except OSError as error:
        raise RemapError(
            f"cannot open {_DEVICE}: {error.strerror}",
            f"in a container: {_CONTAINER}; elsewhere give this user read and write access to it",
        ) from error


def mount_as_root(device: int, path: str, source: str, options: str) -> None:
    """Mount the FUSE connection `device` read-only at `path`, shown as coming from `source`."""
    flags = _MS_RDONLY | _MS_NOSUID | _MS_NODEV
    encoded = (os.fsencode(text) for text in (source, path, FILESYSTEM_TYPE))
    if _LIBC.mount(*encoded, ctypes.c_ulong(flags), os.fsencode(f"fd={device},{options}")):
        number = ctypes.get_errno()
        raise RemapError(
            f"cannot mount at {path}: {os.strerror(number)}",
            f"in a container: {_CONTAINER}" if number == errno.EPERM else "",
        )


def is_dead(path: str, seconds: float = _ANSWER_SECONDS) -> bool:
    """Whether the connection of the mount at `path` has ended; one that says nothing in time is not dead."""
    answers: SimpleQueue[bool] = SimpleQueue()
    # A thread, for a server that is stopped lets nobody go who asks it.
    Thread(target=lambda: answers.put(_is_not_connected(path)), daemon=True).start()
    try:
        return answers.get(timeout=seconds)
    except Empty:
        return False


def _is_not_connected(path: str) -> bool:
    try:
        # Not stat: the kernel may have its answer from before.
        os.statvfs(path)
    except OSError as error:
        return error.errno == errno.ENOTCONN
    return False


def _dead(path: str, mount: Mount | None) -> RemapError:
    whose = f" of {mount.source}" if mount else ""
    return RemapError(
        f"a dead mount{whose} is in the way at {path}: its server is gone", f"clear it: {_clear(path)}"
    )


def _clear(path: str) -> str:
    return f"umount -l {path}" if os.geteuid() == 0 else f"fusermount3 -u {path}"


def _unescape(field: bytes) -> str:
    return os.fsdecode(_ESCAPE.sub(lambda match: bytes([int(match[1], 8)]), field))
