"""`remapfs demo`."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from mounting import missing, remapfs
from remapfs import load_preset, make_plan, open_file, read_checkpoint
from remapfs.cli.demo import demo
from remapfs.demo import Comparison, compare, write_checkpoint

if TYPE_CHECKING:
    from collections.abc import Iterator

REFUSAL = "error: /dev/fuse does not exist\nhint:  load the module: modprobe fuse"


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Give the directory for temporary files, which must be empty in the end."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    yield tmp_path
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(missing() is not None, reason=missing() or "")
def test_it_mounts_compares_and_leaves_nothing(scratch: Path) -> None:
    """Exit code 0, every tensor equal, no file and no mount left."""
    run = remapfs("demo")
    assert (run.returncode, run.stderr) == (0, "")
    assert "mounted   with  --preset deepseek-v4  in " in run.stdout
    assert "compared  296 of 296 tensors equal, through the mount" in run.stdout
    assert re.search(r"speed     [\d.]+ GB/s on first touch", run.stdout)
    assert run.stdout.endswith("removed: nothing is left\n")
    assert str(scratch) not in Path("/proc/mounts").read_text()


@pytest.mark.usefixtures("scratch")
def test_without_fuse_it_reads_through_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """It says why in the words of `mount`, compares all the same, and that is a success."""
    monkeypatch.setattr("remapfs.cli.demo._mount", lambda *_: REFUSAL)
    run = CliRunner().invoke(demo)
    assert run.exit_code == 0
    assert f"not mounted; this host does not allow it:\n{REFUSAL}\n" in run.output
    assert "compared  296 of 296 tensors equal, through the Python reader instead" in run.output
    assert "lm_head.weight" in run.output
    assert "speed" not in run.output
    assert run.output.endswith("removed: nothing is left\n")


@pytest.mark.usefixtures("scratch")
def test_a_tensor_that_differs_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit code 1, with its name; still nothing is left."""
    monkeypatch.setattr("remapfs.cli.demo._mount", lambda *_: REFUSAL)
    monkeypatch.setattr("remapfs.demo.compare", lambda *_: Comparison(35, 296, ("head.weight",)))
    run = CliRunner().invoke(demo)
    assert getattr(run.exception, "exit_code", None) == 1
    assert str(run.exception) == (
        "1 of 296 tensors differ through the Python reader instead: head.weight first"
    )


@pytest.mark.skipif(missing() is not None, reason=missing() or "")
def test_a_demo_that_fails_in_the_middle_unmounts(scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever happens between, nothing stays mounted."""

    def fail(*_: object) -> None:
        assert os.listdir(next(scratch.glob("remapfs-demo-*")) / "mount")
        raise KeyboardInterrupt

    monkeypatch.setattr("remapfs.demo.open_shards", fail)
    run = CliRunner().invoke(demo)
    assert run.exit_code == 1
    assert str(scratch) not in Path("/proc/mounts").read_text()


def test_what_differs_is_found(tmp_path: Path) -> None:
    """The comparison sees a single changed byte."""
    write_checkpoint(tmp_path)
    plan = make_plan(read_checkpoint(tmp_path), load_preset("deepseek-v4"))
    contents = {file.path: open_file(file).read() for file in plan.files}
    assert compare(plan, contents.__getitem__) == Comparison(35, 296, ())
    first = plan.shards[0]
    content = contents[first.shard.file.path]
    contents[first.shard.file.path] = content[:-1] + bytes([content[-1] ^ 1])
    assert compare(plan, contents.__getitem__).different == (first.names[-1],)
