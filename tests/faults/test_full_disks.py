"""Disks without room, where the log or the image of a mount should go."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import remapfs as package
from faults.conftest import FIRST, PATIENCE, SECOND, mounting, read
from faults.storage import disk
from mounting import missing, mounted, remapfs
from remapfs.present.mountpoint import mounted_at

if TYPE_CHECKING:
    from faults.conftest import Checkpoint

_FULL = Path("/dev/full")


def test_a_log_that_cannot_be_written_does_not_stop_the_serving(checkpoint: Checkpoint) -> None:
    """With stderr on a device that is always full, reads are right, failures EIO, the unmount clean."""
    expected = checkpoint.expected()
    with mounting(checkpoint, log_file=_FULL) as mount:
        assert mount.read(FIRST) == expected[FIRST]
        os.truncate(checkpoint.path / FIRST, 100)
        for _ in range(2):
            assert mount.read(FIRST, "direct").startswith("EIO at ")
        assert mount.read(SECOND) == expected[SECOND]
        os.kill(mount.server(), 9)
        assert mount.read(SECOND, "direct") == expected[SECOND]


def test_a_log_on_a_full_disk_does_not_stop_the_serving(checkpoint: Checkpoint, tmp_path: Path) -> None:
    """--log on a disk that was filled after the mount: what cannot be written is lost, and nothing else."""
    reason = missing()
    if reason:
        pytest.skip(reason)
    expected = checkpoint.expected()
    with disk(tmp_path, 8) as storage:
        log = storage.path / "remapfs.log"
        with mounted(checkpoint.path, ["--rules", str(checkpoint.rules), "--log", str(log)]) as mountpoint:
            _fill(storage.path)
            logged = log.stat().st_size
            os.truncate(checkpoint.path / FIRST, 100)
            assert read(mountpoint / FIRST).startswith("EIO at ")
            assert read(mountpoint / SECOND) == expected[SECOND]
            assert log.stat().st_size <= logged + 4096


def test_a_full_disk_for_the_image_refuses_the_mount(checkpoint: Checkpoint, tmp_path: Path) -> None:
    """Exit code 2 that names the directory; nothing is mounted, and no part of an image stays there."""
    reason = missing("erofs")
    if reason:
        pytest.skip(reason)
    mountpoint = tmp_path / "mnt"
    mountpoint.mkdir()
    with disk(tmp_path, 8) as storage:
        _fill(storage.path)
        before = sorted(storage.path.iterdir())
        run = remapfs(
            "mount",
            checkpoint.path,
            mountpoint,
            *("--rules", checkpoint.rules, "--presenter", "erofs"),
            *("--image-dir", storage.path, "--background"),
        )
        assert run.returncode == 2
        assert str(storage.path) in run.stderr
        assert "Traceback" not in run.stderr
        assert mounted_at(str(mountpoint)) is None
        assert sorted(storage.path.iterdir()) == before


def test_an_image_disk_that_fills_later_changes_nothing(checkpoint: Checkpoint, tmp_path: Path) -> None:
    """The image is whole before anything is mounted."""
    reason = missing("erofs")
    if reason:
        pytest.skip(reason)
    expected = checkpoint.expected()
    with (
        disk(tmp_path, 40) as storage,
        mounting(checkpoint, "erofs", ["--image-dir", storage.path]) as mount,
    ):
        _fill(storage.path)
        assert mount.read(FIRST) == expected[FIRST]
        assert mount.read(SECOND, "mmap") == expected[SECOND]


def test_a_report_that_cannot_be_written_is_an_error(checkpoint: Checkpoint) -> None:
    """`remapfs plan` into a full device says so with exit code 1, and has no traceback."""
    with _FULL.open("w") as full:
        run = subprocess.run(
            [sys.executable, "-m", "remapfs", "plan", checkpoint.path, "--rules", checkpoint.rules],
            env={**os.environ, "PYTHONPATH": str(Path(package.__file__).parents[1])},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=PATIENCE,
        )
    assert run.returncode == 1
    assert "No space left on device" in run.stderr
    assert "Traceback" not in run.stderr


def _fill(folder: Path) -> None:
    """Write until nothing fits any more."""
    with suppress(OSError), (folder / "filler").open("wb", buffering=0) as stream:
        while True:
            stream.write(bytes(1 << 20))
    with suppress(OSError), (folder / "filler-2").open("wb", buffering=0) as stream:
        while True:
            stream.write(bytes(512))
    os.sync()
