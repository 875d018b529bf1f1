"""Mounts whose servers are killed, and a stand-in for a service manager."""

from __future__ import annotations

import array
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import remapfs
from mounting import missing
from present import plans
from processes import child_of
from remapfs.present.mountpoint import mounted_at

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

PATIENCE = 30.0
_LAUNCHER = Path(__file__).with_name("launcher.py")
_READER = Path(__file__).with_name("outside.py")


@dataclass
class Running:
    """A supervisor that serves `source` at `path`, started by a test."""

    source: Path
    path: Path
    process: subprocess.Popen[str]
    log: Path

    def server(self) -> int:
        """Give the process that answers now; wait until there is one."""
        until(lambda: child_of(self.process.pid) is not None)
        found = child_of(self.process.pid)
        assert found is not None
        return found

    def kill_server(self) -> None:
        """Kill it as the out-of-memory killer would."""
        os.kill(self.server(), signal.SIGKILL)

    def read(self) -> bytes:
        """Read the file that the plan shows, from the server and not from the cache."""
        with (self.path / "model.bin").open("rb", buffering=0) as stream:
            os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            return stream.read()

    def end(self) -> tuple[int, str]:
        """Wait for the supervisor's end, and return its exit code and what was logged."""
        code = self.process.wait(PATIENCE)
        return code, self.log.read_text()


@dataclass
class Manager:
    """What a service manager does: it is told things, keeps descriptors, and passes them on."""

    directory: Path
    told: list[str] = field(default_factory=list)
    kept: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Listen."""
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(self.directory / "notify"))
        self.socket.settimeout(PATIENCE)

    def environment(self, room: int = 2) -> dict[str, str]:
        """Say what a service finds in its environment."""
        return {"NOTIFY_SOCKET": str(self.directory / "notify"), "FDSTORE": str(room)}

    def listen(self, until_told: str) -> None:
        """Take in messages until one of these words."""
        while True:
            text, rights, _, _ = self.socket.recvmsg(4096, socket.CMSG_SPACE(4 * 4))
            lines = text.decode().split("\n")
            descriptors = array.array("i")
            for _, _, data in rights:
                descriptors.frombytes(data)
            name = next((line.partition("=")[2] for line in lines if line.startswith("FDNAME=")), "")
            if "FDSTORE=1" in lines:
                (self.kept[name],) = descriptors
            if "FDSTOREREMOVE=1" in lines and name in self.kept:
                os.close(self.kept.pop(name))
            self.told += lines
            if until_told in lines:
                return

    def close(self) -> None:
        """Forget everything, as on a stop."""
        for descriptor in self.kept.values():
            os.close(descriptor)
        self.kept.clear()
        self.socket.close()


@contextmanager
def reader(path: Path, offset: int, way: str = "cached") -> Iterator[subprocess.Popen[str]]:
    """Open a file in another process, which reads 4 KiB at `offset` when it is told to."""
    with subprocess.Popen(
        [sys.executable, "-I", _READER, path, str(offset), way],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        yield process


def go(process: subprocess.Popen[str]) -> None:
    """Let a reader read, and give it the time to be waiting for the answer."""
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()
    time.sleep(0.2)


def until(fact: Callable[[], bool]) -> None:
    """Wait for something that will become true."""
    deadline = time.monotonic() + PATIENCE
    while not fact():
        assert time.monotonic() < deadline
        time.sleep(0.005)


@contextmanager
def running(
    source: Path,
    path: Path,
    arguments: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    kept: Mapping[str, int] | None = None,
) -> Iterator[Running]:
    """Serve a directory until the context ends; then nothing is mounted and nobody serves.

    The process is started as a service manager does: `kept` descriptors by their names, from 3 on.
    """
    kept = kept or {}
    log = path.with_name(f"log-{time.monotonic_ns()}")
    command = [sys.executable, _LAUNCHER, ",".join(map(str, kept.values())), ":".join(kept), source, path]
    with log.open("w") as output:
        process = subprocess.Popen(
            [*map(str, command), *arguments],
            env={**os.environ, "PYTHONPATH": _paths(), **(environment or {})},
            stdout=subprocess.PIPE,
            stderr=output,
            pass_fds=tuple(kept.values()),
            text=True,
        )
    served = Running(source, path, process, log)
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "ready\n", log.read_text()
        yield served
    finally:
        process.kill()
        process.wait()
        if mounted_at(str(path)):
            subprocess.run(["umount", "-f", "-l", path], check=False)
        process.stdout.read()  # until its server has ended too
        process.stdout.close()


def _paths() -> str:
    return os.pathsep.join((str(Path(remapfs.__file__).parents[1]), str(Path(plans.__file__).parents[1])))


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Make a directory with one file in which a shifted or repeated part is noticed."""
    reason = missing()
    if reason:
        pytest.skip(reason)
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "model.bin").write_bytes(os.urandom(9 * (1 << 20) + 321))
    return folder


@pytest.fixture
def mountpoint() -> Iterator[Path]:
    """Make a directory to mount on, alone in another one."""
    with tempfile.TemporaryDirectory(prefix="remapfs-test-") as made:
        path = Path(made).resolve() / "mnt"
        path.mkdir()
        yield path
        assert mounted_at(str(path)) is None


@pytest.fixture
def served(source: Path, mountpoint: Path) -> Iterator[Running]:
    """Serve the source for one test."""
    with running(source, mountpoint) as mount:
        yield mount


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Manager]:
    """Stand in for a service manager."""
    made = Manager(tmp_path)
    yield made
    made.close()
