"""A look at this host: everything that can be tried is tried, and nothing is left behind."""

from __future__ import annotations

import importlib
import os
import platform
import resource
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from remapfs.doctor.model import Host, Refused, Works
from remapfs.doctor.storage import storage
from remapfs.errors import RemapError
from remapfs.present import mountpoint as mountpoints
from remapfs.present.erofs.backing import choose
from remapfs.present.erofs.guards import check_kernel, check_user
from remapfs.present.fuse.mounting import allow_other_is_allowed, mount
from remapfs.warm.memory import memory

if TYPE_CHECKING:
    from collections.abc import Callable

    from remapfs.plan.model import Plan

_NAME: Final = "remapfs-doctor"
_SYSTEMD: Final = Path("/run/systemd/system")  # sd_booted(3) looks here too
_PIPE: Final = Path("/proc/sys/fs/pipe-max-size")
# What container engines leave for those inside: systemd's CONTAINER_INTERFACE, Docker, Podman and CRI-O.
_KINDS: Final = Path("/run/systemd/container")
_MARKS: Final = {"/.dockerenv": "docker", "/run/.containerenv": "podman"}
_FIRST: Final = Path("/proc/1/environ")
_VARIABLE: Final = b"container="


def look(make: Callable[[], Plan] | None = None, image_dir: str | None = None) -> Host:
    """Try what this host allows, and look where the checkpoint lies whose plan `make` makes, if one is given.

    A trial mount is made and ended, in a new directory among the temporary files; beside the checkpoint, a
    block of each shard is shared with a file without a name.
    """
    return Host(
        release=platform.release(),
        user=os.geteuid(),
        container=_container(),
        device=_tried(_open_device),
        mount=_tried(_trial_mount),
        allow_other=os.geteuid() == 0 or allow_other_is_allowed(),
        fusepy=_fusepy(),
        erofs=_tried(lambda: _erofs(image_dir)),
        open_files=resource.getrlimit(resource.RLIMIT_NOFILE)[1],
        pipe=int(_PIPE.read_text()),
        memory=memory(),
        systemd=_SYSTEMD.is_dir(),
        source=storage(make) if make else None,
    )


def _tried(attempt: Callable[[], str | None]) -> Works | Refused:
    try:
        return Works(attempt() or "")
    except RemapError as error:
        return Refused(error.message, error.hint)


def _open_device() -> None:
    os.close(mountpoints.open_device())


def _trial_mount() -> str:
    """Mount nothing, as root or through fusermount3, and end that mount at once."""
    with tempfile.TemporaryDirectory(prefix=f"{_NAME}-") as folder:
        path = os.path.realpath(folder)
        os.close(mount(_NAME, 0o700, path, allow_other=False))
        try:
            mountpoints.release(path, lazy=True)
        except OSError as error:
            raise RemapError(
                f"a trial mount at {path} cannot be ended: {error.strerror}", f"umount -l {path}"
            ) from error
    return "as root" if os.geteuid() == 0 else "through fusermount3"


def _fusepy() -> Works | Refused:
    try:
        importlib.import_module("fuse")
    except ImportError:
        return Refused("the package fusepy is not installed", "pip install 'remapfs[fusepy]'")
    except OSError as error:
        return Refused(f"libfuse 2 is not installed: {error}", "install the package libfuse2")
    return Works()


def _erofs(image_dir: str | None) -> str:
    check_user()
    check_kernel()
    folder, backing = choose(0, image_dir, None)
    return f"from {backing}, with the image in {folder}"


def _container() -> str | None:
    try:
        return _KINDS.read_text().strip()
    except OSError:
        pass
    for mark, kind in _MARKS.items():
        if os.path.exists(mark):
            return kind
    if "KUBERNETES_SERVICE_HOST" in os.environ:
        return "kubernetes"
    try:
        variables = _FIRST.read_bytes().split(b"\0")
    except OSError:
        return None
    found = (each.removeprefix(_VARIABLE) for each in variables if each.startswith(_VARIABLE))
    return next((os.fsdecode(each) for each in found), None)
