"""One booted machine for all tests, with a checkpoint and units in it."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from remapfs.demo import write_checkpoint
from systemd.machine import SHARED, Machine, booted

if TYPE_CHECKING:
    from collections.abc import Iterator

VARIABLE = "REMAPFS_SYSTEMD_ROOT"
UNIT = "remapfs@v4.service"
MOUNTPOINT = "/mnt/models/v4"
CONFIG = f'source = "{SHARED}/checkpoint"\nmountpoint = "{MOUNTPOINT}"\npreset = "deepseek-v4"\n'


@pytest.fixture(scope="session")
def machine() -> Iterator[Machine]:
    """Boot a machine and install the units; the root that it boots from stays as it is."""
    root = os.environ.get(VARIABLE)
    if not root:
        pytest.skip(f"{VARIABLE} is not set")
    if shutil.which("systemd-nspawn") is None:
        pytest.skip("systemd-nspawn is not installed")
    shared = Path(tempfile.mkdtemp(prefix="remapfs-machine-"))
    try:
        (shared / "checkpoint").mkdir()
        write_checkpoint(shared / "checkpoint")
        shared.chmod(0o755)
        with booted(Path(root), shared) as up:
            up.run("remapfs", "install-units")
            up.run("mkdir", "-p", MOUNTPOINT)
            up.write("/etc/remapfs/v4.toml", CONFIG)
            up.run("systemctl", "daemon-reload")
            yield up
    finally:
        shutil.rmtree(shared)


@pytest.fixture
def started(machine: Machine) -> Iterator[Machine]:
    """Start the unit, and stop it at the end; nothing is mounted and nothing runs then."""
    machine.run("systemctl", "start", UNIT)
    yield machine
    machine.run("systemctl", "stop", UNIT)
    assert machine.state(UNIT) == "inactive"
    assert not machine.mounted(MOUNTPOINT)
    assert machine.processes() == []
    machine.run("systemctl", "reset-failed", check=False)
