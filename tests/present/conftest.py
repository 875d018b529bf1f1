"""Sources, plans and served mounts for the presenters' tests."""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import remapfs
from mounting import missing
from present import plans
from processes import child_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_SOURCES = Path(remapfs.__file__).parents[1]


@dataclass(frozen=True)
class Served:
    """A mount with its server in another process."""

    source: Path
    path: Path
    process: subprocess.Popen[str]

    def server(self) -> int:
        """Give the process that answers now, a child of the one that was started."""
        found = child_of(self.process.pid)
        assert found is not None
        return found

    def end(self) -> tuple[int, str]:
        """Wait for the server's end, and return its exit code and what it logged."""
        _, log = self.process.communicate(timeout=20)
        return self.process.returncode, log


def random_bytes(size: int, seed: int) -> bytes:
    """Make bytes in which a shifted or repeated part is noticed."""
    return random.Random(seed).randbytes(size)  # noqa: S311 - test data


def _fill(root: Path) -> None:
    (root / "sub" / "deep").mkdir(parents=True)
    (root / "model.bin").write_bytes(random_bytes(5 * (1 << 20) + 123, 1))
    (root / "sub" / "other.bin").write_bytes(random_bytes(3 * 4096, 2))
    (root / "sub" / "deep" / "small").write_bytes(b"seventeen bytes..")
    (root / "empty").write_bytes(b"")
    (root / "sub" / "other.bin").chmod(0o640)
    os.utime(root / "model.bin", ns=(5, 1_600_000_000_123_456_789))


@pytest.fixture
def source_dir(tmp_path: Path) -> Path:
    """Make a directory with a few files of odd sizes in it and below."""
    root = tmp_path / "source"
    root.mkdir()
    _fill(root)
    return root


@contextlib.contextmanager
def _serving(source: Path) -> Iterator[Served]:
    mountpoint = Path(tempfile.mkdtemp(prefix="remapfs-test-"))
    process = subprocess.Popen(
        [sys.executable, plans.__file__, source, mountpoint],
        env={**os.environ, "PYTHONPATH": str(_SOURCES)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        ready = process.stdout.readline()
        assert ready == "ready\n", process.communicate()[1]
        yield Served(source, mountpoint, process)
    finally:
        process.kill()
        # Its server goes on alone, with its pipes, until the mount ends.
        subprocess.run(["umount", "-f", "-l", mountpoint], capture_output=True, check=False)
        process.communicate()
        mountpoint.rmdir()


@pytest.fixture(scope="session")
def fuse() -> None:
    """Skip a test that needs a mount where none can be made."""
    reason = missing()
    if reason:
        pytest.skip(reason)


@pytest.fixture
def serving(fuse: None) -> Callable[[Path], contextlib.AbstractContextManager[Served]]:  # noqa: ARG001 - for its skip
    """Return a function that serves a directory from another process while its context lasts."""
    return _serving


@pytest.fixture
def served(
    source_dir: Path, serving: Callable[[Path], contextlib.AbstractContextManager[Served]]
) -> Iterator[Served]:
    """Serve the source directory for one test."""
    with serving(source_dir) as mount:
        yield mount


@pytest.fixture(scope="module")
def shared(fuse: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:  # noqa: ARG001 - for its skip
    """Serve the same files for all tests of a module, which only read."""
    root = tmp_path_factory.mktemp("shared")
    _fill(root)
    many = root / "many"
    many.mkdir()
    for number in range(3000):
        (many / f"file-{number:05}").touch()
    with _serving(root) as mount:
        yield mount
