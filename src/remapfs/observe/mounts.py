"""Finding mounts of remapfs without asking any of them for anything: one whose server hangs would hang us."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from remapfs.present import mountpoint as mountpoints

_MOST_LINKS: Final = 40  # as the kernel has it
_OWNER: Final = re.compile(rb"\buser_id=(\d+)")


def all_mounts() -> tuple[mountpoints.Mount, ...]:
    """List the mounts of remapfs in this mount namespace, each device once, in their order."""
    found: dict[str, mountpoints.Mount] = {}
    for mount in mountpoints.mounts():
        if mount.is_ours:
            found.setdefault(mount.device, mount)
    return tuple(found.values())


def find(path: str) -> mountpoints.Mount | None:
    """Find the mount of remapfs that `path` leads to or into, following links up to there and no further."""
    table = {mount.path: mount for mount in mountpoints.mounts()}
    here, links = "", 0
    todo = os.path.join(os.getcwd(), path).split("/")[::-1]
    while todo:
        part = todo.pop()
        if part in ("", "."):
            continue
        if part == "..":
            here = os.path.dirname(here).rstrip("/")
            continue
        step = f"{here}/{part}"
        mount = table.get(step)
        if mount and mount.is_ours:
            return mount
        target = _target(step)
        if target is None:
            here = step
            continue
        links += 1
        if links > _MOST_LINKS:
            return None
        here = "" if target.startswith("/") else here
        todo += target.split("/")[::-1]
    return None


def owner_of(mount: mountpoints.Mount) -> int:
    """Say which user made a mount; 0 where the file system does not tell."""
    for line in Path("/proc/self/mountinfo").read_bytes().splitlines():
        if line.split(b" ")[2] == mount.device.encode():
            found = _OWNER.search(line.rpartition(b" ")[2])
            return int(found[1]) if found else 0
    return 0


def _target(path: str) -> str | None:
    try:
        return os.readlink(path)
    except OSError:
        return None
