"""Storage below the source that fails, or is taken away, under a live mount."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from faults.conftest import (
    FIRST,
    PATIENCE,
    READING,
    SECOND,
    mounting,
    umount,
    with_rules,
    write_checkpoint,
)
from faults.storage import disk, failing, run
from mounting import missing
from remapfs.present.mountpoint import mounted_at

if TYPE_CHECKING:
    from pathlib import Path

    from faults.conftest import Checkpoint


@pytest.mark.usefixtures("fuse")
def test_bytes_that_cannot_be_read_are_an_error_while_they_cannot(
    checkpoint: Checkpoint, tmp_path: Path
) -> None:
    """EIO for them alone; the log says it once, with the byte; when the storage works again, so do reads."""
    expected = checkpoint.expected()
    with failing(checkpoint.path, tmp_path) as source:
        shown = with_rules(source.path, tmp_path)
        with mounting(shown) as mount:
            assert mount.read(FIRST) == expected[FIRST]
            source.fail_from(3 << 20)
            for _ in range(3):
                failed, _, at = mount.read(FIRST, "direct").partition(" at ")
                assert (failed, int(at)) == ("EIO", 3 << 20)
            assert mount.read(FIRST, "mmap") == "SIGBUS"
            (line,) = [line for line in mount.log.splitlines() if "cannot be read at byte" in line]
            assert str(source.path / FIRST) in line
            assert os.strerror(5) in line
            source.work_again()
            assert mount.read(FIRST) == expected[FIRST]


@pytest.mark.parametrize("presenter", ["fuse", "erofs"])
def test_bad_blocks_are_an_error_to_their_readers_alone(presenter: str, tmp_path: Path) -> None:
    """The block device gives EIO for the second half of the disk; what was read from the first is right."""
    reason = missing(presenter)
    if reason:
        pytest.skip(reason)
    with disk(tmp_path, 40) as storage:
        write_checkpoint(storage.path)
        shown = with_rules(storage.path, tmp_path)
        expected = shown.expected()
        with mounting(shown, presenter) as mount:
            run(["sync", "-f", storage.path])
            for name in (FIRST, SECOND):
                _forget(storage.path / name)
            first_bad = _blocks(storage.path / SECOND)[0]
            os.truncate(storage.image, first_bad)
            failed, _, _ = mount.read(SECOND).partition(" at ")
            assert failed == "EIO"
            assert mount.read(SECOND, "mmap") == "SIGBUS"
            if presenter == "fuse":
                assert f"{storage.path / SECOND}: cannot be read at byte" in mount.log
            if max(_blocks(storage.path / FIRST)) < first_bad:
                assert mount.read(FIRST) == expected[FIRST]


def test_a_source_whose_file_system_is_unmounted_is_read_on(presenter: str, tmp_path: Path) -> None:
    """A lazy unmount takes the name away, not the files that are open; the mount's end lets go of them."""
    with disk(tmp_path, 40) as storage:
        write_checkpoint(storage.path)
        shown = with_rules(storage.path, tmp_path)
        expected = shown.expected()
        with mounting(shown, presenter) as mount:
            run(["umount", "-l", storage.path])
            assert not list(storage.path.iterdir())
            # The device too is only marked to go.
            run(["losetup", "-d", storage.device])
            assert mount.read(FIRST) == expected[FIRST]
            assert mount.read(SECOND, "mmap") == expected[SECOND]


@pytest.mark.usefixtures("fuse")
def test_a_source_whose_server_is_gone_is_an_error(checkpoint: Checkpoint, tmp_path: Path) -> None:
    """As where a network file system is cut off for good: EIO, a line in the log, and an unmount works."""
    with failing(checkpoint.path, tmp_path) as source:
        shown = with_rules(source.path, tmp_path)
        with mounting(shown) as mount:
            source.process.kill()
            source.process.wait()
            assert mount.read(FIRST).startswith("EIO at ")
            (line,) = [line for line in mount.log.splitlines() if str(source.path / FIRST) in line]
            assert "cannot be read at byte" in line
            assert umount(mount.path).returncode == 0
            assert mounted_at(str(mount.path)) is None


@pytest.mark.usefixtures("fuse")
def test_a_source_that_does_not_answer_makes_its_readers_wait(checkpoint: Checkpoint, tmp_path: Path) -> None:
    """As a network file system that is cut off for a while; what remapfs holds itself is served meanwhile."""
    expected = checkpoint.expected()
    with failing(checkpoint.path, tmp_path) as source:
        shown = with_rules(source.path, tmp_path)
        with mounting(shown) as mount:
            index = mount.read("model.safetensors.index.json")
            os.kill(source.process.pid, signal.SIGSTOP)
            command = [sys.executable, "-I", str(READING), "direct", str(mount.path / FIRST)]
            reader = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            time.sleep(0.5)
            assert reader.poll() is None
            assert mount.read("model.safetensors.index.json") == index
            os.kill(source.process.pid, signal.SIGCONT)
            assert reader.communicate(timeout=PATIENCE)[0].strip() == expected[FIRST]
            assert "cannot be read" not in mount.log


def _forget(path: Path) -> None:
    with path.open("rb") as stream:
        os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _blocks(path: Path) -> tuple[int, int]:
    """Give the first and the last byte on the disk that belong to a file."""
    said = subprocess.run(["filefrag", "-b1", "-v", path], capture_output=True, text=True, check=True).stdout
    extents = [line.split(":")[2].split("..") for line in said.splitlines() if line.strip()[:1].isdigit()]
    return min(int(begin) for begin, _ in extents), max(int(end) for _, end in extents)
