"""How much memory there is for the page cache: what the host and the control group leave."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_MEMINFO: Final = Path("/proc/meminfo")
_CGROUP: Final = Path("/proc/self/cgroup")
_CGROUPS: Final = Path("/sys/fs/cgroup")
_FILES: Final = re.compile(r"^(?:in)?active_file (\d+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes: `total` of the host or the control group, `available` without taking them from any process.

    Pages that are cached count as available.
    """

    total: int
    available: int


def memory() -> Memory:
    """Look how much there is now: the least of the host's and of what each control group allows."""
    fields = dict(re.findall(r"^(\w+):\s+(\d+) kB$", _MEMINFO.read_text(), re.MULTILINE))
    found = Memory(int(fields["MemTotal"]) << 10, int(fields["MemAvailable"]) << 10)
    return min([found, *_groups()], key=lambda each: each.available)


def _groups() -> list[Memory]:
    """Read the limits of control groups of version 2, if there are any."""
    found = []
    line = next((line for line in _read(_CGROUP).splitlines() if line.startswith("0::")), "")
    group = _CGROUPS / line.removeprefix("0::").lstrip("/")
    for place in (group, *group.parents) if line else ():
        limit = _read(place / "memory.max").strip()
        if limit.isdecimal():
            used = int(_read(place / "memory.current") or 0)
            files = sum(map(int, _FILES.findall(_read(place / "memory.stat"))))
            found.append(Memory(int(limit), max(int(limit) - used + files, 0)))
        if place == _CGROUPS:
            break
    return found


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
