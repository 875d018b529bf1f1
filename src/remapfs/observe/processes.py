"""What /proc says about processes, without asking any file system that they use."""

from __future__ import annotations

from pathlib import Path

from remapfs.observe.report import Process


def look_at(pid: int) -> Process | None:
    """Say how a process fares; None if it is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    state = stat.rpartition(")")[2].split()[0]
    return Process(pid, state, _memory(pid))


def _memory(pid: int) -> int | None:
    """Give the proportional set size in bytes: pages that are shared count by their share."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:")), None)
