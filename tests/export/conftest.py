"""File systems to export from and to: the plain one, and XFS and Btrfs on loop devices."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

_SIZE = 512 << 20


@dataclass(frozen=True)
class Place:
    """An empty directory on a file system of its `kind`; `shares` says that it has reflinks."""

    kind: str
    path: Path

    @property
    def shares(self) -> bool:
        """Whether files can share blocks there."""
        return self.kind != "plain"


@contextmanager
def _loop_mounted(kind: str, folder: Path) -> Iterator[Path]:
    if os.geteuid() != 0:
        pytest.skip("only root can mount a loop device")
    if shutil.which(f"mkfs.{kind}") is None:
        pytest.skip(f"mkfs.{kind} is not installed")
    image, mountpoint = folder / f"{kind}.img", folder / kind
    image.touch()
    os.truncate(image, _SIZE)
    subprocess.run([f"mkfs.{kind}", "-q", image], check=True, capture_output=True)
    mountpoint.mkdir()
    done = subprocess.run(
        ["mount", "-o", "loop", image, mountpoint], capture_output=True, text=True, check=False
    )
    if done.returncode:
        pytest.skip(f"{kind} cannot be mounted here: {done.stderr.strip()}")
    try:
        yield mountpoint
    finally:
        subprocess.run(["umount", mountpoint], check=True)


@pytest.fixture(scope="session")
def xfs_root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Mount an XFS for all tests."""
    with _loop_mounted("xfs", tmp_path_factory.mktemp("xfs")) as root:
        yield root


@pytest.fixture(scope="session")
def btrfs_root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Mount a Btrfs for all tests."""
    with _loop_mounted("btrfs", tmp_path_factory.mktemp("btrfs")) as root:
        yield root


@pytest.fixture
def xfs(xfs_root: Path) -> Iterator[Place]:
    """Give a directory on XFS."""
    with tempfile.TemporaryDirectory(dir=xfs_root) as folder:
        yield Place("xfs", Path(folder))


@pytest.fixture
def plain(tmp_path: Path) -> Place:
    """Give a directory on the file system of temporary files."""
    return Place("plain", tmp_path)


@pytest.fixture(params=["plain", "xfs", "btrfs"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """Give a directory on each file system in turn."""
    if request.param == "plain":
        yield Place("plain", tmp_path)
        return
    root = request.getfixturevalue(f"{request.param}_root")
    with tempfile.TemporaryDirectory(dir=root) as folder:
        yield Place(request.param, Path(folder))
