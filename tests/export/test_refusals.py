"""What is refused before anything is written."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from export.sources import DROP, RENAME, assert_exported, plan_of, write_source
from mounting import remapfs
from remapfs.errors import RemapError, RuntimeFailure
from remapfs.present.reflink import ExportOptions, Reflink, export_plan, writing
from remapfs.present.reflink.state import STATE

if TYPE_CHECKING:
    from pathlib import Path

    from export.conftest import Place

_ALWAYS = ExportOptions(Reflink.ALWAYS)


def refused(source: Path, target: Path, options: ExportOptions, rules: str = RENAME) -> RemapError:
    """Export, and return the refusal, which must be one of bad input."""
    with pytest.raises(RemapError) as caught:
        export_plan(plan_of(source, rules), str(target), options)
    assert caught.value.exit_code == 2
    assert caught.value.hint
    return caught.value


def test_always_needs_a_file_system_that_shares(plain: Place) -> None:
    """Elsewhere nothing is left behind, not even the directory."""
    source = write_source(plain.path / "src")
    try:
        error = refused(source, plain.path / "dst", _ALWAYS)
    except pytest.fail.Exception:
        pytest.skip("temporary files lie on a file system that shares blocks")
    assert error.message.endswith(
        f"cannot be cloned to {plain.path}/dst: this file system cannot share blocks between files"
    )
    assert not (plain.path / "dst").exists()


def test_always_needs_the_source_s_own_file_system(xfs: Place, tmp_path: Path) -> None:
    """An empty directory that was there stays, and stays empty."""
    source = write_source(tmp_path / "src")
    (xfs.path / "dst").mkdir()
    error = refused(source, xfs.path / "dst", _ALWAYS)
    assert error.message.endswith("the source lies on another file system")
    assert list((xfs.path / "dst").iterdir()) == []


def test_always_needs_bytes_in_step_with_the_blocks(xfs: Place) -> None:
    """A drop moves what follows it: the shard is named."""
    source = write_source(xfs.path / "src")
    error = refused(source, xfs.path / "dst", _ALWAYS, DROP)
    assert error.message.startswith("m-0.safetensors: 3,145,728 bytes cannot be cloned: ")
    assert not (xfs.path / "dst").exists()


def test_always_refuses_on_the_command_line(plain: Place) -> None:
    """With exit code 2 and a hint."""
    source = write_source(plain.path / "src")
    rules = plain.path / "rules.toml"
    rules.write_text(DROP)
    run = remapfs("export", source, plain.path / "dst", "--rules", rules, "--reflink", "always")
    assert run.returncode == 2
    assert run.stderr.endswith("hint:  --reflink auto copies where it must\n")
    assert run.stdout == ""


def test_a_directory_in_the_source(plain: Place) -> None:
    """Or the source itself, or one that holds it."""
    source = write_source(plain.path / "src")
    inside = refused(source, source / "dst", ExportOptions())
    assert inside.message == f"an export to {source}/dst would write into its own source {source}"
    for target in (source, source.parent):
        over = refused(source, target, ExportOptions())
        assert over.message == f"an export to {target} would lie over its own source {source}"
    (plain.path / "link").symlink_to(source / "sub")
    assert "into its own source" in refused(source, plain.path / "link", ExportOptions()).message


def test_a_directory_with_something_else_in_it(plain: Place) -> None:
    """It is left as it is."""
    source = write_source(plain.path / "src")
    (plain.path / "dst").mkdir()
    (plain.path / "dst" / "mine").write_text("mine")
    error = refused(source, plain.path / "dst", ExportOptions())
    assert error.message == f"{plain.path}/dst is not empty, and not an export of remapfs: it has mine"
    assert os.listdir(plain.path / "dst") == ["mine"]


def test_the_top_of_a_file_system_counts_as_empty(plain: Place) -> None:
    """Ext4 keeps lost+found there."""
    source = write_source(plain.path / "src")
    (plain.path / "dst" / "lost+found").mkdir(parents=True)
    export_plan(plan_of(source), str(plain.path / "dst"), ExportOptions())
    assert_exported(plan_of(source), plain.path / "dst")


def test_a_run_that_was_killed_at_its_very_start_is_no_obstacle(plain: Place) -> None:
    """All that it left is a state without its name, which goes."""
    source = write_source(plain.path / "src")
    (plain.path / "dst").mkdir()
    (plain.path / "dst" / f".{STATE}.remapfs-partial").write_text("{")
    export_plan(plan_of(source), str(plain.path / "dst"), ExportOptions())
    assert_exported(plan_of(source), plain.path / "dst")


@pytest.mark.parametrize("content", ["", "[]", "{", '{"remapfs_export": 2}', '{"remapfs_export": 1}'])
def test_a_state_that_cannot_be_understood(plain: Place, content: str) -> None:
    """Of a later release, or damaged."""
    source = write_source(plain.path / "src")
    (plain.path / "dst").mkdir()
    (plain.path / "dst" / STATE).write_text(content)
    error = refused(source, plain.path / "dst", ExportOptions())
    assert error.message == f"{plain.path}/dst/{STATE} cannot be understood"


def test_an_export_of_another_plan(plain: Place) -> None:
    """Other rules, or a source that changed, would mix two checkpoints."""
    source = write_source(plain.path / "src")
    plan = plan_of(source)
    export_plan(plan, str(plain.path / "dst"), ExportOptions())
    error = refused(source, plain.path / "dst", ExportOptions(), DROP)
    assert "holds an export of another plan" in error.message
    assert error.hint.endswith(f"rm -r {plain.path}/dst")
    os.utime(source / "config.json")
    assert "another plan" in refused(source, plain.path / "dst", ExportOptions()).message


def test_a_place_that_cannot_be(plain: Place) -> None:
    """A file, or a directory whose parent does not exist."""
    source = write_source(plain.path / "src")
    (plain.path / "file").write_text("x")
    error = refused(source, plain.path / "file", ExportOptions())
    assert error.message == f"cannot export to {plain.path}/file: it is not a directory"
    error = refused(source, plain.path / "no" / "dst", ExportOptions())
    assert (error.message, error.hint) == (
        f"the directory {plain.path}/no does not exist",
        f"mkdir -p {plain.path}/no",
    )


def test_a_place_that_may_not_be_written_to(plain: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read-only, or somebody else's."""
    source = write_source(plain.path / "src")
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert refused(source, plain.path / "dst", ExportOptions()).message == f"cannot write to {plain.path}"


def test_too_little_room(plain: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both numbers are said, nothing is written; hard links need none."""
    source = write_source(plain.path / "src")
    plan = plan_of(source)
    fake = os.statvfs_result((4096, 4096, 100, 100, 100, 0, 0, 0, 0, 255))
    monkeypatch.setattr(os, "statvfs", lambda _: fake)
    with pytest.raises(RuntimeFailure) as caught:
        export_plan(plan, str(plain.path / "dst"), ExportOptions(Reflink.NEVER))
    assert caught.value.message.startswith(f"{plain.path}/dst has 409,600 bytes free; the export writes 18,")
    assert not (plain.path / "dst").exists()
    untouched = replace(plan, files=tuple(f for f in plan.files if f.path == "other.safetensors"))
    assert export_plan(untouched, str(plain.path / "dst"), ExportOptions(link=True)).linked == 1


def test_shared_bytes_need_no_room(xfs: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what is written and copied is counted."""
    source = write_source(xfs.path / "src")
    fake = os.statvfs_result((4096, 4096, 100, 100, 100, 0, 0, 0, 0, 255))
    monkeypatch.setattr(os, "statvfs", lambda _: fake)
    export_plan(plan_of(source), str(xfs.path / "dst"), _ALWAYS)
    assert_exported(plan_of(source), xfs.path / "dst")


def test_a_clone_that_reads_back_otherwise(xfs: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """With auto it is copied and said; with always it fails."""
    monkeypatch.setattr(writing, "reads_back", lambda *_: False)
    plan = plan_of(write_source(xfs.path / "src"))
    done = export_plan(plan, str(xfs.path / "one"), ExportOptions())
    assert (done.shared, done.refused) == (0, ("the shared blocks read back otherwise",))
    assert_exported(plan, xfs.path / "one")
    with pytest.raises(RuntimeFailure, match="read back otherwise"):
        export_plan(plan, str(xfs.path / "two"), _ALWAYS)


def test_a_source_that_is_gone(plain: Place) -> None:
    """The file is named."""
    source = write_source(plain.path / "src")
    plan = plan_of(source)
    (source / "m-1.safetensors").unlink()
    with pytest.raises(RuntimeFailure, match=r"No such file or directory \(.*m-1\.safetensors\)"):
        export_plan(plan, str(plain.path / "dst"), ExportOptions(Reflink.NEVER))
    assert not (plain.path / "dst").exists()
