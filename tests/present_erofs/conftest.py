"""Sources, and EROFS mounts of them, served from files and from loop devices."""

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
from present_erofs import serving as program
from remapfs.errors import RemapError
from remapfs.present.erofs import Backing
from remapfs.present.erofs.backing import choose

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_PATHS = os.pathsep.join((str(Path(remapfs.__file__).parents[1]), str(Path(__file__).parents[1])))
BACKINGS = ("files", "loop devices")


def _skip_without(backing: str) -> None:
    try:
        choose(0, None, Backing(backing))
    except RemapError as error:
        pytest.skip(str(error))


@dataclass(frozen=True)
class Served:
    """A mount with the process that waits for its end."""

    source: Path
    path: Path
    process: subprocess.Popen[str]
    backing: str

    def end(self) -> tuple[int, str]:
        """Wait for the process's end, and return its exit code and what it logged."""
        _, log = self.process.communicate(timeout=20)
        return self.process.returncode, log


def random_bytes(size: int, seed: int) -> bytes:
    """Make bytes in which a shifted or repeated part is noticed."""
    return random.Random(seed).randbytes(size)  # noqa: S311  # test data


def fill(root: Path) -> None:
    """Write a few files of odd sizes, in directories."""
    (root / "sub" / "deep").mkdir(parents=True)
    (root / "model.bin").write_bytes(random_bytes(5 * (1 << 20) + 123, 1))
    (root / "sub" / "other.bin").write_bytes(random_bytes(3 * (1 << 20), 2))
    (root / "sub" / "deep" / "small").write_bytes(b"seventeen bytes..")
    (root / "empty").write_bytes(b"")
    (root / "sub" / "other.bin").chmod(0o640)
    os.utime(root / "model.bin", ns=(5, 1_600_000_000_123_456_789))


@pytest.fixture
def source_dir(tmp_path: Path) -> Path:
    """Make a directory with a few files of odd sizes in it and below."""
    root = tmp_path / "source"
    root.mkdir()
    fill(root)
    return root


@contextlib.contextmanager
def _serving(source: Path, backing: str = "files", open_to: str = "all") -> Iterator[Served]:
    mountpoint = Path(tempfile.mkdtemp(prefix="remapfs-test-"))
    process = subprocess.Popen(
        [sys.executable, program.__file__, source, mountpoint, backing, open_to],
        env={**os.environ, "PYTHONPATH": _PATHS},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        ready = process.stdout.readline()
        assert ready == "ready\n", process.communicate()[1]
        yield Served(source, mountpoint, process, backing)
    finally:
        process.kill()
        process.communicate()
        subprocess.run(["umount", "-l", mountpoint], capture_output=True, check=False)
        mountpoint.rmdir()


@pytest.fixture(scope="session")
def erofs() -> None:
    """Skip a test that needs an EROFS mount where none can be made."""
    reason = missing("erofs")
    if reason:
        pytest.skip(reason)


@pytest.fixture
def serving(erofs: None) -> Callable[..., contextlib.AbstractContextManager[Served]]:  # noqa: ARG001  # for its skip
    """Return a function that mounts a directory, by another process, while its context lasts."""
    return _serving


@pytest.fixture(params=BACKINGS)
def served(
    source_dir: Path,
    serving: Callable[..., contextlib.AbstractContextManager[Served]],
    request: pytest.FixtureRequest,
) -> Iterator[Served]:
    """Serve the source directory for one test."""
    _skip_without(request.param)
    with serving(source_dir, request.param) as mount:
        yield mount


@pytest.fixture(scope="module", params=BACKINGS)
def shared(
    erofs: None,  # noqa: ARG001  # for its skip
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
) -> Iterator[Served]:
    """Serve the same files for all tests of a module, which only read."""
    _skip_without(request.param)
    root = tmp_path_factory.mktemp("shared")
    fill(root)
    many = root / "many"
    many.mkdir()
    for number in range(3000):
        (many / f"file-{number:05}").touch()
    with _serving(root, request.param) as mount:
        yield mount


@pytest.fixture
def mountpoint(erofs: None) -> Iterator[Path]:  # noqa: ARG001  # for its skip
    """Make a fresh directory to mount on, on which nothing is mounted in the end."""
    path = Path(tempfile.mkdtemp(prefix="remapfs-test-"))
    yield path
    left = os.path.ismount(path)
    if left:
        subprocess.run(["umount", "-l", path], check=True)
    path.rmdir()
    assert not left
