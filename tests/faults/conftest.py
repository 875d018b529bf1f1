"""Small checkpoints that are mounted by the command line, and readers in processes of their own."""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import remapfs as package
from mounting import PRESENTERS, missing, remapfs
from processes import child_of
from remapfs.checkpoint import read_checkpoint
from remapfs.plan import make_plan
from remapfs.present.mountpoint import mounted_at
from remapfs.present.reader import open_file
from remapfs.rules import load_rules

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

PATIENCE = 30.0
FIRST, SECOND = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
TENSOR = 6 << 20
HEADER = 4096
READING = Path(__file__).with_name("reading.py")
_RULES = "[[rename]]\nprefix = 'model.'\nto = 'm.'\n"


def write_checkpoint(folder: Path) -> None:
    """Write two shards of 6 MiB, in which a shifted or repeated part is noticed, with their index."""
    weight_map = {}
    for number, name in enumerate((FIRST, SECOND)):
        tensor = f"model.layers.{number}.weight"
        weight_map[tensor] = name
        entry = {"dtype": "U8", "shape": [TENSOR], "data_offsets": [0, TENSOR]}
        header = json.dumps({tensor: entry}).encode()
        header += b" " * (HEADER - 8 - len(header))
        data = random.Random(number).randbytes(TENSOR)  # noqa: S311  # test data
        (folder / name).write_bytes(len(header).to_bytes(8, "little") + header + data)
    text = json.dumps({"metadata": {"total_size": 2 * TENSOR}, "weight_map": weight_map})
    (folder / "model.safetensors.index.json").write_text(text)


@dataclass(frozen=True)
class Checkpoint:
    """A directory with its rules, and what a mount of it must show: the SHA-256 of each file."""

    path: Path
    rules: Path

    def expected(self) -> dict[str, str]:
        """Work out from the sources what is to be read; to be asked before they fail."""
        rules = load_rules(str(self.rules))
        plan = make_plan(read_checkpoint(self.path), rules)
        return {
            file.path: hashlib.sha256(open_file(file).read()).hexdigest()
            for file in plan.files
            if file.path.endswith(".safetensors")
        }


@dataclass(frozen=True)
class Mount:
    """A checkpoint, mounted by a process in the foreground that logs to a file."""

    path: Path
    process: subprocess.Popen[bytes]
    log_file: Path

    @property
    def log(self) -> str:
        """What was logged until now."""
        return _logged(self.log_file)

    def server(self) -> int:
        """Give the process that answers now; wait until there is one."""
        found = child_of(self.process.pid)
        deadline = time.monotonic() + PATIENCE
        while found is None:
            assert time.monotonic() < deadline
            time.sleep(0.01)
            found = child_of(self.process.pid)
        return found

    def read(self, name: str, way: str = "read") -> str:
        """Read a file whole, past the page cache, in another process: its SHA-256, or how it failed."""
        return read(self.path / name, way)


def read(path: Path, way: str = "read") -> str:
    """Read a file whole, as `reading.py` does."""
    command = [sys.executable, "-I", str(READING), way, str(path)]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    if run.returncode < 0:
        return signal.Signals(-run.returncode).name
    assert run.returncode == 0, run.stderr
    return run.stdout.strip()


def _logged(log_file: Path) -> str:
    return log_file.read_text() if log_file.is_file() else "(its log is a device)"


def _is_announced(path: Path, log_file: Path) -> bool:
    # Before, a look at the mount from outside is on its way: it would meet what a test does next.
    if log_file.is_file():
        return " renamed, " in log_file.read_text()
    if mounted_at(str(path)) is None:
        return False
    state = json.loads(remapfs("status", path, "--json").stdout)["state"]
    return bool(state == "serving")


@contextmanager
def mounting(
    checkpoint: Checkpoint,
    presenter: str = "fuse",
    arguments: Sequence[str | Path] = (),
    environment: Mapping[str, str] | None = None,
    log_file: Path | None = None,
) -> Iterator[Mount]:
    """Mount a checkpoint in the foreground; at the end nothing is mounted and no process is left."""
    folder = Path(tempfile.mkdtemp(prefix="remapfs-test-")).resolve()
    path = folder / "mnt"
    path.mkdir()
    log_file = log_file or folder / "log"
    options = ["--rules", checkpoint.rules, "--presenter", presenter, *arguments]
    with log_file.open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "remapfs", "mount", checkpoint.path, path, *options],
            env={**os.environ, "PYTHONPATH": str(Path(package.__file__).parents[1]), **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=log,
            start_new_session=True,
        )
    try:
        deadline = time.monotonic() + PATIENCE
        while not _is_announced(path, log_file):
            assert process.poll() is None, _logged(log_file)
            assert time.monotonic() < deadline, _logged(log_file)
            time.sleep(0.01)
        assert read(path / "model.safetensors.index.json"), "the mount does not answer"
        yield Mount(path, process, log_file)
        process.terminate()
        process.wait(PATIENCE)
        assert mounted_at(str(path)) is None
    finally:
        # The server too: one that a failed test has stopped would hold its connection for ever.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if mounted_at(str(path)):
            subprocess.run(["umount", "-f", "-l", path], check=False)
        path.rmdir()
        if log_file.parent == folder:
            log_file.unlink()
        folder.rmdir()


@pytest.fixture(params=PRESENTERS)
def presenter(request: pytest.FixtureRequest) -> str:
    """Name each presenter that can mount here."""
    reason = missing(request.param)
    if reason:
        pytest.skip(reason)
    return str(request.param)


@pytest.fixture
def fuse() -> None:
    """Skip a test that needs a mount where none can be made."""
    reason = missing()
    if reason:
        pytest.skip(reason)


@pytest.fixture
def checkpoint(tmp_path: Path) -> Checkpoint:
    """Make a checkpoint on the file system that tests lie on."""
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    write_checkpoint(folder)
    return with_rules(folder, tmp_path)


def with_rules(folder: Path, where: Path) -> Checkpoint:
    """Put rules that rename beside a checkpoint."""
    rules = where / "rules.toml"
    rules.write_text(_RULES)
    return Checkpoint(folder, rules)


def umount(path: Path) -> subprocess.CompletedProcess[str]:
    """Unmount as a user does."""
    return remapfs("umount", path)
