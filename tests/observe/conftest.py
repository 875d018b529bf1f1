"""Mounts that are looked at while they work."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from mounting import missing, remapfs
from remapfs.present.mountpoint import mounted_at
from situations import shard

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

PATIENCE = 30.0


def status(*arguments: str | Path, code: int = 0) -> Any:  # noqa: ANN401 - what JSON holds
    """Ask, check the exit code and give what was told."""
    run = remapfs("status", *arguments, "--json")
    assert run.returncode == code, run.stdout + run.stderr
    return json.loads(run.stdout)


def until(fact: Callable[[], bool]) -> None:
    """Wait for something that will become true."""
    deadline = time.monotonic() + PATIENCE
    while not fact():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@dataclass
class Foreground:
    """A mount that was started in the foreground, and the file that its stderr goes to."""

    path: Path
    process: subprocess.Popen[bytes]
    log: Path

    def lines(self) -> list[str]:
        """Give what it has logged so far."""
        return self.log.read_text().splitlines()

    def read(self, name: str = "model.safetensors") -> bytes:
        """Read a file from the server and not from the cache."""
        with (self.path / name).open("rb", buffering=0) as stream:
            os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            return stream.read()

    def end(self) -> None:
        """Unmount, and wait for its end."""
        self.process.terminate()
        assert self.process.wait(PATIENCE) == 0


@contextmanager
def foreground(source: Path, arguments: Sequence[str] = (), *, journal: bool = False) -> Iterator[Foreground]:
    """Mount in the foreground; with `journal`, as if systemd had connected stderr to the journal."""
    with tempfile.TemporaryDirectory(prefix="remapfs-test-") as made:
        path, log = Path(made).resolve() / "mnt", Path(made) / "log"
        path.mkdir()
        with log.open("wb") as stderr:
            found = os.fstat(stderr.fileno())
            stream = {"JOURNAL_STREAM": f"{found.st_dev}:{found.st_ino}"} if journal else {}
            process = subprocess.Popen(
                [sys.executable, "-m", "remapfs", "mount", str(source), str(path), *arguments],
                stderr=stderr,
                env={**os.environ, **stream},
            )
        try:
            until(lambda: process.poll() is not None or " renamed, " in log.read_text())
            assert process.poll() is None, log.read_text()
            yield Foreground(path, process, log)
        finally:
            process.terminate()
            process.wait(PATIENCE)
            if mounted_at(str(path)):
                subprocess.run(["umount", "-f", "-l", path], check=False)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Make a checkpoint with one shard of 3 MiB."""
    reason = missing()
    if reason:
        pytest.skip(reason)
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(shard({"tensors": [["a", "U8", [3 << 20]]]}))
    return folder
