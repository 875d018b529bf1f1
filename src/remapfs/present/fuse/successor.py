"""Continuing a mount that a service manager kept over a restart of its service."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from remapfs.present import mountpoint as mountpoints
from remapfs.present.fuse.fingerprint import fingerprint
from remapfs.present.fuse.live import LiveMount
from remapfs.present.fuse.record import RECORD_NAME, Record, read, write
from remapfs.present.options import FILESYSTEM_TYPE, LOGGER

if TYPE_CHECKING:
    from remapfs.plan.model import Plan
    from remapfs.present.options import MountOptions
    from remapfs.present.supervise.systemd import Manager

DEVICE_NAME: Final = "remapfs"
# The mount's descriptor and its record.
ROOM: Final = 2


def keep(plan: Plan, live: LiveMount, manager: Manager) -> int:
    """Let the manager keep a mount, and return the descriptor of its record."""
    descriptor = write(Record(live.path, live.identity, live.options.allow_other, fingerprint(plan)))
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
    and it is unmounted, since the kernel may have cached its bytes. A mount whose descriptor was kept is
    never asked for anything, since perhaps nobody serves it.
    """
    kept = dict(manager.kept)
    path = mountpoints.resolve(mountpoint)
    mount = mountpoints.mounted_at(path)
    device, descriptor = kept.get(DEVICE_NAME, -1), kept.get(RECORD_NAME, -1)
    record = read(descriptor)
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
        mount, path = mountpoints.mounted_at(record.path), record.path
        stale = mount is not None and mount.device == record.device
    else:
        # Not asked whether it is dead if its descriptor was kept: it would wait for a server.
        stale = device >= 0 or mountpoints.is_dead(path)
    if stale and mount is not None and mount.kind == FILESYSTEM_TYPE:
        LOGGER.warning("%s: not what is mounted now: whoever still reads it is cut off", path)
        mountpoints.release(path, lazy=True)
    return None
