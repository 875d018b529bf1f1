"""A memory limit for one process, by a cgroup of version 1 or 2."""

from __future__ import annotations

import os
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

_ROOT = Path("/sys/fs/cgroup")


@contextmanager
def limited(pid: int, limit: int) -> Iterator[None]:
    """Let a process take no more than `limit` bytes from now on: the kernel kills it when it needs them."""
    if (_ROOT / "memory").is_dir():
        hierarchy, knob = _ROOT / "memory", "memory.limit_in_bytes"
    elif (_ROOT / "cgroup.controllers").exists():
        hierarchy, knob = _ROOT, "memory.max"
    else:
        pytest.skip("no cgroup with a memory controller is mounted here")
    group = hierarchy / f"remapfs-test-{os.getpid()}-{pid}"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"no cgroup can be made here: {error.strerror}")
    try:
        if not (group / knob).exists():
            pytest.skip("the memory controller is not handed down to new cgroups")
        (group / knob).write_text(str(limit))
        (group / "cgroup.procs").write_text(str(pid))
        yield
    finally:
        deadline = time.monotonic() + 10
        while (group / "cgroup.procs").read_text() and time.monotonic() < deadline:
            time.sleep(0.05)
        group.rmdir()
