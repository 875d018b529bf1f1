"""Another user gets from the mount what the source would give, and no more."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mounting import PRESENTERS, missing, mounted
from situations import shard

if TYPE_CHECKING:
    from collections.abc import Iterator

_NOBODY = 65534

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


@pytest.fixture(params=PRESENTERS)
def presenter(request: pytest.FixtureRequest) -> str:
    """Name each presenter that can mount here."""
    reason = missing(request.param)
    if reason:
        pytest.skip(reason)
    return str(request.param)


@pytest.fixture
def source() -> Iterator[Path]:
    """Make a checkpoint that everyone may enter, with one shard for all and one for its group."""
    root = Path(tempfile.mkdtemp(prefix="remapfs-users-"))
    root.chmod(0o755)
    folder = root / "snapshots" / "main"
    folder.mkdir(mode=0o755, parents=True)
    for name, mode in (("open", 0o644), ("closed", 0o640)):
        path = folder / f"{name}.safetensors"
        path.write_bytes(shard({"tensors": [[name, "U8", [4]]]}))
        path.chmod(mode)
    yield folder
    root.chmod(0o755)
    shutil.rmtree(root)


def reads(path: Path) -> bool:
    """Say whether the user nobody can read a file, in a process of its own."""
    # /bin/cat, for that user need not be able to start this interpreter.
    command = ["/bin/cat", str(path)]
    run = subprocess.run(
        command, capture_output=True, check=False, user=_NOBODY, group=_NOBODY, extra_groups=[]
    )
    assert run.returncode == 0 or b"Permission denied" in run.stderr, run.stderr
    return run.returncode == 0


def test_the_sources_modes_guard_the_mount(source: Path, presenter: str) -> None:
    """What everyone may read in the source, everyone may read in the mount; what not, not."""
    with mounted(source, presenter=presenter) as mountpoint:
        assert reads(source / "open.safetensors")
        assert reads(mountpoint / "open.safetensors")
        assert not reads(source / "closed.safetensors")
        assert not reads(mountpoint / "closed.safetensors")


def test_a_directory_above_the_source_guards_the_mount(source: Path, presenter: str) -> None:
    """A source that a directory above it keeps another user out of is closed in the mount too."""
    source.parent.chmod(0o700)
    with mounted(source, presenter=presenter) as mountpoint:
        assert not reads(source / "open.safetensors")
        assert not reads(mountpoint / "open.safetensors")


def test_a_link_leads_to_no_more_than_its_target(source: Path, presenter: str) -> None:
    """A link into a closed directory shows its target, to those only who could have followed it."""
    vault = source.parent.parent / "blobs"
    vault.mkdir(mode=0o700)
    shutil.move(source / "open.safetensors", vault / "blob")
    (source / "open.safetensors").symlink_to(vault / "blob")
    with mounted(source, presenter=presenter) as mountpoint:
        assert (mountpoint / "open.safetensors").read_bytes() == (vault / "blob").read_bytes()
        assert not reads(mountpoint / "open.safetensors")


def test_a_private_mount_is_roots_alone(source: Path, presenter: str) -> None:
    """With --private nobody else gets in, whatever the modes say."""
    with mounted(source, ["--private"], presenter) as mountpoint:
        assert not reads(mountpoint / "open.safetensors")
