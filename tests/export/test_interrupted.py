"""Exports that are killed or stopped, and gone on with."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import remapfs
from export.sources import RENAME, assert_exported, plan_of, write_source
from mounting import remapfs as command
from remapfs.errors import RuntimeFailure
from remapfs.present.reflink import ExportOptions, Reflink, export, export_plan, writing
from remapfs.present.reflink.copying import copy
from remapfs.present.reflink.state import STATE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from export.conftest import Place
    from remapfs.present.reflink.steps import Copy

_NEVER = ExportOptions(Reflink.NEVER)


@pytest.fixture
def source(plain: Place) -> Path:
    """Write a source, and rules beside it."""
    (plain.path / "rules.toml").write_text(RENAME)
    return write_source(plain.path / "src", shards=6)


def _arguments(source: Path) -> list[str | Path]:
    folder = source.parent
    return ["export", source, folder / "dst", "--rules", folder / "rules.toml", "--reflink", "never"]


@contextmanager
def _stalled(source: Path) -> Iterator[subprocess.Popen[str]]:
    """Start an export that stands still in the middle of a shard."""
    program = [sys.executable, Path(__file__).with_name("slow.py"), source.parent, *_arguments(source)]
    environment = {**os.environ, "PYTHONPATH": str(Path(remapfs.__file__).parents[1])}
    with subprocess.Popen(
        program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        try:
            while not (source.parent / "stalled").exists():
                assert process.poll() is None, process.communicate()
                time.sleep(0.02)
            yield process
        finally:
            process.kill()


def _half_written(folder: Path) -> list[Path]:
    return list(folder.rglob(".*.remapfs-partial"))


def test_killed_in_the_middle_of_a_shard(source: Path) -> None:
    """Nothing stands half-written under its final name, and the second run makes it whole."""
    plan = plan_of(source)
    sizes = {file.path: file.size for file in plan.files}
    with _stalled(source) as process:
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=20)
    target = source.parent / "dst"
    assert _half_written(target)
    complete = [path for path in target.rglob("*.safetensors") if not path.name.startswith(".")]
    assert len(complete) < 7
    assert all(path.stat().st_size == sizes[path.name] for path in complete)
    run = command(*_arguments(source))
    assert (run.returncode, run.stderr) == (0, "")
    assert_exported(plan, target)
    assert command(*_arguments(source)).stdout == f"nothing to do: all 10 files in {target} are complete\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_stopped_by_a_signal(source: Path, number: signal.Signals) -> None:
    """It says that it can be gone on with, leaves nothing half-written, and exits as shells expect."""
    with _stalled(source) as process:
        process.send_signal(number)
        time.sleep(0.5)  # the handler runs in the main thread, which waits for files
        (source.parent / "go").touch()
        output, error = process.communicate(timeout=20)
    target = source.parent / "dst"
    assert process.returncode == 128 + number
    assert output == ""
    assert error == (
        f"error: stopped before the export to {target} was complete\n"
        "hint:  the same command goes on where it ended\n"
    )
    assert _half_written(target) == []
    assert not json.loads((target / STATE).read_bytes())["complete"]
    assert command(*_arguments(source)).returncode == 0
    assert_exported(plan_of(source), target)


def test_two_exports_to_one_directory(source: Path) -> None:
    """The second is refused while the first runs, and does it no harm."""
    with _stalled(source) as process:
        run = command(*_arguments(source))
        assert run.returncode == 2
        assert run.stderr.startswith(f"error: another export to {source.parent}/dst is running\n")
        (source.parent / "go").touch()
        process.communicate(timeout=60)
        assert process.returncode == 0
    assert_exported(plan_of(source), source.parent / "dst")


def test_only_what_is_missing_or_changed_is_written_again(source: Path) -> None:
    """A file that somebody changed, removed or cut off is; the others keep their inodes."""
    target = source.parent / "dst"
    plan = plan_of(source)
    export_plan(plan, str(target), _NEVER)
    inodes = {path.name: path.stat().st_ino for path in target.iterdir() if path.suffix == ".safetensors"}
    (target / "m-0.safetensors").unlink()
    os.truncate(target / "m-1.safetensors", 5)
    (target / "m-2.safetensors").write_bytes((target / "m-2.safetensors").read_bytes())
    done = export_plan(plan, str(target), _NEVER)
    assert done.kept == 7
    assert_exported(plan, target)
    same = {name for name, inode in inodes.items() if (target / name).stat().st_ino == inode}
    assert same >= {"m-3.safetensors", "m-4.safetensors", "m-5.safetensors", "other.safetensors"}


def _failing(number: int) -> Callable[..., int]:

    def fail(step: Copy, *arguments: object, **options: object) -> int:
        if step.part.source.path.endswith("m-3.safetensors"):
            raise OSError(number, os.strerror(number))
        return copy(step, *arguments, **options)  # type: ignore[arg-type]  # passed on

    return fail


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_a_disk_that_fails(source: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Full or broken: the file is named, nothing half-written stays, and a second run goes on."""
    plan, target = plan_of(source), source.parent / "dst"
    with monkeypatch.context() as patch:
        patch.setattr(writing, "copy", _failing(number))
        with pytest.raises(RuntimeFailure) as caught:
            export_plan(plan, str(target), _NEVER)
    assert caught.value.message == f"cannot export {target}/m-3.safetensors: {os.strerror(number)}"
    assert caught.value.exit_code == 1
    assert _half_written(target) == []
    assert not (target / "m-3.safetensors").exists()
    export_plan(plan, str(target), _NEVER)
    assert_exported(plan, target)


@pytest.mark.parametrize("when", ["before", "while"])
def test_a_source_that_changes(source: Path, monkeypatch: pytest.MonkeyPatch, when: str) -> None:
    """Before it is opened or while it is copied: the file never gets its name."""
    plan, target = plan_of(source), source.parent / "dst"

    def touching(step: Copy, *arguments: object, **options: object) -> int:
        copied = copy(step, *arguments, **options)  # type: ignore[arg-type]  # passed on
        if step.part.source.path.endswith("m-3.safetensors"):
            os.utime(step.part.source.path)
        return copied

    if when == "before":
        os.utime(source / "m-3.safetensors")
    else:
        monkeypatch.setattr(writing, "copy", touching)
    with pytest.raises(RuntimeFailure, match=r"m-3\.safetensors: changed since it was planned: mtime_ns was"):
        export_plan(plan, str(target), _NEVER)
    assert not (target / "m-3.safetensors").exists()
    assert _half_written(target) == []


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """Mount a file system that is smaller than the source."""
    folder = tmp_path / "small"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no file system can be mounted here: {done.stderr.strip()}")
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_a_file_system_that_runs_full(source: Path, small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While something else fills it: what is complete stays, the second run writes the rest."""
    plan, target = plan_of(source), small / "dst"
    monkeypatch.setattr(export, "check_space", lambda *_: None)
    with pytest.raises(RuntimeFailure, match="No space left on device"):
        export_plan(plan, str(target), _NEVER)
    assert _half_written(target) == []
    subprocess.run(["mount", "-o", "remount,size=100m", small], check=True)
    monkeypatch.undo()
    done = export_plan(plan, str(target), _NEVER)
    assert done.kept > 0
    assert_exported(plan, target)
