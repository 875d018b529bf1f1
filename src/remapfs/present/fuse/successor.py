"""Continuing a mount that a service manager kept over a restart of its service."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final

from remapfs.present import mountpoint as mountpoints
from remapfs.present.fuse.fingerprint import fingerprint
from remapfs.present.fuse.live import LiveMount
from remapfs.present.options import FILESYSTEM_TYPE, LOGGER

if TYPE_CHECKING:
    from remapfs.plan.model import Plan
    from remapfs.present.options import MountOptions
    from remapfs.present.supervise.systemd import Manager

DEVICE_NAME: Final = "remapfs"
RECORD_NAME: Final = "remapfs-record"
# The mount's descriptor and its record.
ROOM: Final = 2


@dataclass(frozen=True, slots=True)
class Record:
    """What lies beside a kept descriptor: where it is mounted, as which device, and what it shows."""

    path: str
    device: str
    allow_other: bool
    fingerprint: str


def keep(plan: Plan, live: LiveMount, manager: Manager) -> int:
    """Let the manager keep a mount, and return the descriptor of its record."""
    record = Record(live.path, live.identity, live.options.allow_other, fingerprint(plan))
    descriptor = os.memfd_create(RECORD_NAME)
    os.pwrite(descriptor, json.dumps(asdict(record)).encode(), 0)
    manager.keep(RECORD_NAME, descriptor)
    manager.keep(DEVICE_NAME, live.device)
    return descriptor


def forget(manager: Manager) -> None:
    """Let the manager close what it keeps of a mount."""
    manager.forget(DEVICE_NAME)
    manager.forget(RECORD_NAME)


def succeed(
    plan: Plan, mountpoint: str, options: MountOptions, manager: Manager
) -> tuple[LiveMount, int] | None:
    """Take over the mount that the manager kept, with the descriptor of its record.

    The result is None where there is none, or none that shows exactly `plan`: then its readers are cut off
    and it is unmounted, since the kernel may have cached its bytes. Never asks a mount for anything: nobody
    may be serving it.
    """
    kept = dict(manager.kept)
    path = mountpoints.resolve(mountpoint)
    mount = mountpoints.mounted_at(path)
    device, descriptor = kept.get(DEVICE_NAME, -1), kept.get(RECORD_NAME, -1)
    record = _read(descriptor)
    if device >= 0 and record is not None and mount is not None:
        wanted = Record(path, mount.device, options.allow_other, fingerprint(plan))
        if record == wanted and mount.kind == FILESYSTEM_TYPE:
            for name, other in kept.items():
                if name not in (DEVICE_NAME, RECORD_NAME):
                    os.close(other)
            return LiveMount.continued(plan, path, options, device, mount), descriptor
    forget(manager)
    for _, each in manager.kept:
        os.close(each)
    if record is not None:
        _end(record)
    elif mount is not None and manager.address:
        _end_dead(path, mount)
    return None


def _read(descriptor: int) -> Record | None:
    if descriptor < 0:
        return None
    try:
        size = os.fstat(descriptor).st_size
        return Record(**json.loads(os.pread(descriptor, size, 0)))
    except (OSError, ValueError, TypeError):
        return None


def _end(record: Record) -> None:
    """End the mount of a record, which shows something else now, if it is still there."""
    mount = mountpoints.mounted_at(record.path)
    if mount is None or (mount.kind, mount.device) != (FILESYSTEM_TYPE, record.device):
        return
    LOGGER.warning(
        "%s: not what was mounted before: its readers are cut off, and it is mounted anew", record.path
    )
    mountpoints.release(record.path, lazy=True)


def _end_dead(path: str, mount: mountpoints.Mount) -> None:
    """Clear what an earlier start of the service left when it was killed and nothing was kept."""
    if mount.kind == FILESYSTEM_TYPE and mountpoints.is_dead(path):
        LOGGER.warning("%s: clearing a dead mount", path)
        mountpoints.release(path, lazy=True)
