"""File systems below a checkpoint that can be filled, broken and taken away."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mounting import missing
from remapfs.present.mountpoint import mounted_at

if TYPE_CHECKING:
    from collections.abc import Iterator

_FAILING = Path(__file__).with_name("failing_source.py")
_PATIENCE = 20.0


@dataclass(frozen=True)
class Disk:
    """An ext4 file system on a loop device: its image, the device and where it is mounted."""

    image: Path
    device: str
    path: Path


@contextmanager
def disk(where: Path, megabytes: int) -> Iterator[Disk]:
    """Make a file system; at the end it is gone, whatever a test did to it, and so is its device."""
    if os.geteuid() != 0 or shutil.which("mkfs.ext4") is None or shutil.which("losetup") is None:
        pytest.skip("needs root, mkfs.ext4 and losetup")
    image, path = where / "disk.img", where / "disk"
    image.touch()
    os.truncate(image, megabytes << 20)
    path.mkdir()
    run(["mkfs.ext4", "-q", "-b", "4096", "-m", "0", image])
    # With direct I/O the device reads the image itself, not what the page cache has of it.
    made = subprocess.run(
        ["losetup", "--direct-io=on", "--find", "--show", image], capture_output=True, text=True, check=False
    )
    if made.returncode:
        pytest.skip(f"no loop device can be made here: {made.stderr.strip()}")
    device = made.stdout.strip()
    try:
        run(["mount", "-o", "errors=continue", device, path])
        yield Disk(image, device, path)
    finally:
        if mounted_at(str(path)):
            run(["umount", "-l", path])
        subprocess.run(["losetup", "-d", device], capture_output=True, check=False)
    assert released(image), "somebody still holds the file system"


def released(image: Path) -> bool:
    """Wait until no loop device stands for a file."""
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        devices = subprocess.run(["losetup", "-j", image], capture_output=True, text=True, check=True)
        if not devices.stdout.strip():
            return True
        time.sleep(0.1)
    return False


@dataclass(frozen=True)
class Failing:
    """A directory, shown at `path` by a process that fails from a byte on where it is told so."""

    path: Path
    process: subprocess.Popen[bytes]
    control: Path

    def fail_from(self, offset: int) -> None:
        """Fail every read that goes beyond `offset`, in any file."""
        self.control.write_text(str(offset))

    def work_again(self) -> None:
        """Fail no more."""
        self.control.unlink()


@contextmanager
def failing(folder: Path, where: Path) -> Iterator[Failing]:
    """Show a directory through a file system that can fail."""
    reason = missing("fusepy")
    if reason or os.geteuid() != 0:
        pytest.skip(reason or "needs root")
    path = where / "failing"
    path.mkdir()
    control = where / "control"
    process = subprocess.Popen([sys.executable, _FAILING, folder, path, control])
    try:
        deadline = time.monotonic() + _PATIENCE
        while mounted_at(str(path)) is None:
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.01)
        yield Failing(path, process, control)
    finally:
        process.kill()
        process.wait()
        if mounted_at(str(path)):
            run(["umount", "-l", path])


def run(command: list[str | Path]) -> None:
    """Run a tool that must succeed."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
