"""A look at this very host: what can be tried is tried, and nothing stays."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from mounting import missing
from remapfs import RemapError, Rules, make_plan, read_checkpoint
from remapfs.cli.main import remapfs
from remapfs.doctor import Level, Storage, Works, host, look
from remapfs.doctor.storage import storage
from remapfs.present import mountpoint as mountpoints
from situations import shard

HEALTHY = {"tensors": [["a", "U8", [8]]]}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Write a checkpoint of one tensor."""
    folder = tmp_path / "source"
    folder.mkdir(mode=0o700)
    (folder / "model.safetensors").write_bytes(shard(HEALTHY))
    return folder


def told(*arguments: str | Path, code: int = 0) -> dict[str, dict[str, str]]:
    """Run the command, and map topics to what is said of them."""
    result = CliRunner().invoke(remapfs, ["doctor", "--json", *map(str, arguments)])
    assert result.exit_code == code, result.output
    answer = json.loads(result.stdout)
    assert answer["ready"] is (code == 0)
    return {check["topic"]: check for check in answer["checks"]}


@pytest.mark.skipif(missing() is not None, reason=missing() or "")
def test_a_trial_mount_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No mount, no directory, no descriptor."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = sorted(os.listdir("/proc/self/fd"))
    found = look()
    assert isinstance(found.device, Works)
    assert isinstance(found.mount, Works)
    assert found.source is None
    assert not [*tmp_path.iterdir()]
    assert not [mount for mount in mountpoints.mounts() if mount.path.startswith(str(tmp_path))]
    assert sorted(os.listdir("/proc/self/fd")) == before


def test_a_host_that_refuses_a_mount_is_a_problem_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message of the attempt, and its hint, exit code 1."""

    def refuse() -> int:
        raise RemapError("there is no /dev/fuse", "modprobe fuse")

    monkeypatch.setattr(mountpoints, "open_device", refuse)
    checks = told(code=1)
    assert checks["/dev/fuse"] == {
        "topic": "/dev/fuse",
        "level": "problem",
        "text": "there is no /dev/fuse",
        "do": "modprobe fuse",
    }


@pytest.mark.skipif(missing() is not None, reason=missing() or "")
def test_a_checkpoint_is_looked_at_and_only_read(source: Path) -> None:
    """How much it is and where it lies; beside it, nothing new."""
    before = {path: path.stat().st_mtime_ns for path in (source, source.parent, *source.iterdir())}
    checks = told(source)
    assert checks["source"]["text"].startswith("1 tensor in 1 shard, ")
    assert checks["file system"]["text"] in Path("/proc/filesystems").read_text()
    assert {path: path.stat().st_mtime_ns for path in before} == before


@pytest.mark.skipif(missing() is not None, reason=missing() or "")
def test_a_checkpoint_that_cannot_be_read_is_a_problem_beside_the_rest(source: Path) -> None:
    """The host is told of all the same; exit code 1."""
    (source / "model.safetensors").write_bytes(b"\xff" * 20)
    checks = told(source, code=1)
    assert checks["source"]["level"] == Level.PROBLEM
    assert "model.safetensors" in checks["source"]["text"]
    assert "kernel" in checks


@pytest.mark.parametrize(("name", "what"), [("none", "does not exist"), ("file", "is not a directory")])
def test_a_source_that_is_no_directory_is_bad_input(tmp_path: Path, name: str, what: str) -> None:
    """One sentence and exit code 2, before anything is tried."""
    (tmp_path / "file").touch()
    result = CliRunner().invoke(remapfs, ["doctor", str(tmp_path / name)])
    assert isinstance(result.exception, RemapError)
    assert what in result.exception.message


@pytest.mark.skipif(missing() is not None, reason=missing() or "")
def test_the_last_line_says_whether_it_is_ready() -> None:
    """For who reads no more than that."""
    result = CliRunner().invoke(remapfs, ["doctor"])
    assert result.exit_code == 0
    assert result.stdout.endswith("\n\nready to mount with fuse\n")


@pytest.mark.parametrize(
    ("where", "content", "kind"),
    [("_KINDS", b"systemd-nspawn\n", "systemd-nspawn"), ("_FIRST", b"PATH=/bin\0container=lxc\0", "lxc")],
)
def test_a_container_is_known_by_what_its_engine_leaves(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, where: str, content: bytes, kind: str
) -> None:
    """By its file, or by the first process' environment."""
    mark = tmp_path / "mark"
    mark.write_bytes(content)
    for name in ("_KINDS", "_FIRST"):
        monkeypatch.setattr(host, name, mark if name == where else tmp_path / "none")
    monkeypatch.setattr(host, "_MARKS", {})
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    assert look().container == kind


def test_the_deepest_mount_names_the_file_system(monkeypatch: pytest.MonkeyPatch, source: Path) -> None:
    """What covers the source is asked, not what lies beneath."""
    root, *_ = mountpoints.mounts()
    kinds = [("/", "ext4"), (source.parent, "btrfs"), (source.parent, "xfs"), (f"{source}-other", "tmpfs")]
    mounts = [replace(root, path=str(path), kind=kind) for path, kind in kinds]
    monkeypatch.setattr(mountpoints, "mounts", lambda: mounts)
    found = storage(lambda: make_plan(read_checkpoint(source), Rules("none")))
    assert isinstance(found, Storage)
    assert found.kind == "xfs"
