"""Getting a mounted /dev/fuse descriptor, as root or through fusermount3."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path
from stat import S_IFDIR
from typing import Final

from remapfs.errors import RemapError
from remapfs.present import mountpoint as mountpoints
from remapfs.present.fuse import wire

FUSE_CONF: Final = Path("/etc/fuse.conf")


def mount(source: str, mode: int, path: str, *, allow_other: bool) -> int:
    """Mount read-only at `path`, a checked mount point, and return the descriptor that serves it.

    `source` is what the mount is shown as coming from, `mode` the permission bits of its top directory.
    Raises RemapError, with nothing mounted, if the host refuses.
    """
    # Without default_permissions the kernel would let everyone whom allow_other lets in read every file.
    shared = f"default_permissions,max_read={wire.MAX_READ}" + (",allow_other" if allow_other else "")
    if os.geteuid() != 0:
        return _mount_as_user(source, path, shared, allow_other=allow_other)
    device = mountpoints.open_device()
    try:
        mountpoints.mount_as_root(
            device,
            path,
            source,
            f"rootmode={S_IFDIR | mode:o},user_id={os.getuid()},group_id={os.getgid()},{shared}",
        )
    except BaseException:
        os.close(device)
        raise
    return device


def _mount_as_user(source: str, path: str, shared: str, *, allow_other: bool) -> int:
    """Let fusermount3 open and mount; it passes the descriptor back over a socket."""
    program = mountpoints.fusermount()
    os.close(mountpoints.open_device())
    if allow_other and not allow_other_is_allowed():
        raise RemapError(
            f"only root may use allow_other on this host: {FUSE_CONF} does not say user_allow_other",
            f"as root: echo user_allow_other >> {FUSE_CONF}",
        )
    escaped = source.replace("\\", "\\\\").replace(",", "\\,")
    options = f"ro,nosuid,nodev,fsname={escaped},subtype=remapfs,{shared}"
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            helper = subprocess.Popen(  # noqa: S603 - a fixed program; no shell sees the path
                [program, "-o", options, "--", path],
                env={**os.environ, "_FUSE_COMMFD": str(theirs.fileno())},
                pass_fds=(theirs.fileno(),),
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
            )
        _, descriptors, *_ = socket.recv_fds(ours, 1, 1)
    complaint = helper.communicate()[1].strip()
    if not descriptors:
        raise RemapError(f"fusermount3 cannot mount at {path}: {complaint or 'no reason given'}")
    os.set_inheritable(descriptors[0], False)  # noqa: FBT003 - os.set_inheritable takes no keyword
    return descriptors[0]


def allow_other_is_allowed() -> bool:
    """Whether the host's fuse.conf lets users other than root open a mount to others."""
    try:
        lines = FUSE_CONF.read_text(errors="replace").splitlines()
    except OSError:
        return False
    return any(line.strip() == "user_allow_other" for line in lines)
