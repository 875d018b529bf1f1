"""Who gets into a mount: never more than the source lets in, whoever mounts."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import remapfs as package
from mounting import PRESENTERS, missing, mounted
from situations import shard

if TYPE_CHECKING:
    from collections.abc import Iterator

MEMBER, GROUP, STRANGER = 65534, 65532, 65533
_PROGRAM = Path(__file__).with_name("unprivileged.py")

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


@pytest.fixture
def folder() -> Iterator[Path]:
    """Make a directory that everyone can reach."""
    path = Path(tempfile.mkdtemp(prefix="remapfs-users-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.fixture
def source(folder: Path) -> Path:
    """Make a checkpoint with a shard that only a group may read."""
    path = folder / "checkpoint"
    path.mkdir(mode=0o755)
    for name, mode in (("open", 0o644), ("closed", 0o640)):
        file = path / f"{name}.safetensors"
        file.write_bytes(shard({"tensors": [[name, "U8", [4]]]}))
        file.chmod(mode)
        os.chown(file, 0, GROUP)
    return path


def options_of(path: Path) -> set[str]:
    """Give the options of the mount at a path, those of the mount and those of its file system."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    (fields,) = [line.split() for line in lines if line.split()[4] == str(path)]
    return {*fields[5].split(","), *fields[-1].split(",")}


def reads(path: Path, user: int, groups: list[int]) -> bool:
    """Say whether a user in these groups can read a file."""
    run = subprocess.run(
        ["/bin/cat", str(path)], capture_output=True, check=False, user=user, group=user, extra_groups=groups
    )
    return run.returncode == 0


@pytest.mark.parametrize("presenter", ["fuse", "fusepy"])
@pytest.mark.parametrize(("arguments", "shared"), [([], True), (["--private"], False)])
def test_others_are_let_in_only_where_the_kernel_checks_modes(
    source: Path, presenter: str, arguments: list[str], *, shared: bool
) -> None:
    """`allow_other` comes with `default_permissions`, and both with ro, nosuid and nodev."""
    reason = missing(presenter)
    if reason:
        pytest.skip(reason)
    with mounted(source, arguments, presenter) as mountpoint:
        options = options_of(mountpoint)
        assert {"ro", "nosuid", "nodev", "default_permissions"} <= options
        assert ("allow_other" in options) is shared


@pytest.mark.parametrize("presenter", PRESENTERS)
def test_a_group_reads_what_is_the_groups(source: Path, presenter: str) -> None:
    """A member reads the closed shard, by source and by mount; a stranger by neither, but the open one."""
    reason = missing(presenter)
    if reason:
        pytest.skip(reason)
    with mounted(source, presenter=presenter) as mountpoint:
        for root in (source, mountpoint):
            assert reads(root / "closed.safetensors", MEMBER, [GROUP])
            assert not reads(root / "closed.safetensors", STRANGER, [])
            assert reads(root / "open.safetensors", STRANGER, [])


@pytest.mark.parametrize("presenter", PRESENTERS)
def test_a_directory_of_roots_above_the_source_keeps_all_others_out(
    folder: Path, source: Path, presenter: str
) -> None:
    """Mode 0700 there: not even the group of the file gets in by the mount, which lies elsewhere."""
    reason = missing(presenter)
    if reason:
        pytest.skip(reason)
    folder.chmod(0o700)
    with mounted(source, presenter=presenter) as mountpoint:
        for name in ("open", "closed"):
            assert not reads(mountpoint / f"{name}.safetensors", MEMBER, [GROUP])
            assert (mountpoint / f"{name}.safetensors").read_bytes()


@pytest.mark.parametrize(
    ("who", "allow_other", "opened", "closed"),
    [("alone", False, [False, True, False], [False, True, False]),
     ("others", True, [True, True, True], [True, True, False])],
)  # fmt: skip
def test_a_user_who_mounts_is_alone_unless_asked(
    folder: Path, who: str, opened: list[bool], closed: list[bool], *, allow_other: bool
) -> None:
    """By fusermount3, as root, the user and a guest see it: without allow_other not even root gets in."""
    reason = missing()
    if reason or shutil.which("fusermount3") is None:
        pytest.skip(reason or "fusermount3 is not installed")
    checkpoint, mountpoint = folder / "checkpoint", folder / "mnt"
    checkpoint.mkdir()
    mountpoint.mkdir()
    for name, mode in (("open", 0o644), ("closed", 0o600)):
        (checkpoint / name).write_bytes(b"a head and then some bytes of a file")
        (checkpoint / name).chmod(mode)
        os.chown(checkpoint / name, MEMBER, MEMBER)
    paths = (Path(package.__file__).parents[1], Path(__file__).parents[1])
    run = subprocess.run(
        [sys.executable, str(_PROGRAM), str(checkpoint), str(mountpoint), who],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    if "no mount namespace" in run.stderr:
        pytest.skip("mount namespaces are not allowed here")
    assert run.returncode == 0, run.stderr
    told = json.loads(run.stdout)
    (options,) = told["options"]
    assert {"ro", "nosuid", "nodev", "default_permissions", f"user_id={MEMBER}"} <= set(options)
    assert ("allow_other" in options) is allow_other
    assert told["reads"] == {"open": opened, "closed": closed}
