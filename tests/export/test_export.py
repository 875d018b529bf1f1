"""Exports on file systems that share blocks, and on one that does not."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings

from export.sources import DROP, LARGE, RENAME, assert_exported, plan_of, write_source
from mounting import remapfs
from properties.checkpoints import Sample, samples
from remapfs.present.reflink import ExportOptions, Reflink, export_plan
from remapfs.present.reflink.state import STATE

if TYPE_CHECKING:
    from export.conftest import Place


def test_an_export_is_what_the_reader_gives(place: Place) -> None:
    """Every file, on each file system; where blocks are shared, only the headers take room."""
    source = write_source(place.path / "src")
    plan = plan_of(source)
    os.sync()
    done = export_plan(plan, str(place.path / "dst"), ExportOptions())
    assert_exported(plan, place.path / "dst")
    if place.shares:
        assert done.refused == ()
        assert done.shared > 6 * LARGE
        assert done.copied < 8 * 3 * 4096
    else:
        assert done.shared == 0
    assert done.shared + done.copied == sum(file.size for file in plan.files)


def test_shared_blocks_take_no_room(xfs: Place) -> None:
    """What the file system says is used grows by less than a tenth of the checkpoint."""
    source = write_source(xfs.path / "src", shards=8)
    os.sync()
    before = os.statvfs(xfs.path).f_bfree
    export_plan(plan_of(source), str(xfs.path / "dst"), ExportOptions(Reflink.ALWAYS))
    os.sync()
    used = (before - os.statvfs(xfs.path).f_bfree) * os.statvfs(xfs.path).f_frsize
    assert used < 8 * 2 * LARGE // 10


def test_what_a_drop_moves_is_copied(place: Place) -> None:
    """The tensor behind a dropped one lies otherwise in the blocks; the one before it is shared."""
    source = write_source(place.path / "src")
    plan = plan_of(source, DROP)
    done = export_plan(plan, str(place.path / "dst"), ExportOptions())
    assert_exported(plan, place.path / "dst")
    if place.shares:
        assert done.copied > 2 * LARGE
        assert done.shared > 2 * LARGE


def test_never_copies_every_byte(xfs: Place) -> None:
    """Also where blocks could be shared."""
    source = write_source(xfs.path / "src")
    plan = plan_of(source)
    done = export_plan(plan, str(xfs.path / "dst"), ExportOptions(Reflink.NEVER))
    assert (done.shared, done.refused) == (0, ())
    assert_exported(plan, xfs.path / "dst")


def test_another_file_system_is_copied_to_and_the_reason_is_said(xfs: Place, tmp_path: Path) -> None:
    """Once, on stderr; the export succeeds."""
    source = write_source(tmp_path / "src")
    (tmp_path / "rules.toml").write_text(RENAME)
    run = remapfs("export", source, xfs.path / "dst", "--rules", tmp_path / "rules.toml", "--verify")
    assert run.returncode == 0
    assert run.stderr == "note: not all is shared with the source: the source lies on another file system\n"
    first, second = run.stdout.splitlines()
    assert first == f"exported 6 files to {xfs.path}/dst: 0 B shared with the source, 18.9 MB written"
    assert second == "equal: 9 tensors in 3 shards, 6 files, 18.9 MB compared"
    assert_exported(plan_of(source), xfs.path / "dst")


def test_holes_stay_holes(place: Place) -> None:
    """A sparse source does not grow when it is copied."""
    source = place.path / "src"
    source.mkdir()
    header = b'{"a":{"dtype":"U8","shape":[67108864],"data_offsets":[0,67108864]}}'
    shard = source / "m.safetensors"
    shard.write_bytes(len(header).to_bytes(8, "little") + header)
    os.truncate(shard, 8 + len(header) + (64 << 20))
    with shard.open("r+b") as stream:
        stream.seek(40 << 20)
        stream.write(b"not a hole")
    os.sync()
    plan = plan_of(source.resolve(), '[[rename]]\nprefix = "a"\nto = "b"\n')
    done = export_plan(plan, str(place.path / "dst"), ExportOptions(Reflink.NEVER))
    assert done.copied < 1 << 20
    assert done.holes == sum(file.size for file in plan.files) - done.copied
    assert_exported(plan, place.path / "dst")
    assert (place.path / "dst" / "m.safetensors").stat().st_blocks * 512 < 1 << 20


def test_attributes_are_the_source_s(plain: Place) -> None:
    """Permissions without the write bits, modification times; a directory is left to its owner to change."""
    source = write_source(plain.path / "src")
    (source / "m-0.safetensors").chmod(0o640)
    (source / "sub").chmod(0o750)
    export_plan(plan_of(source), str(plain.path / "dst"), ExportOptions())
    for path, mode in (("m-0.safetensors", 0o440), ("config.json", 0o444), ("sub", 0o750)):
        found, wanted = (plain.path / "dst" / path).stat(), (source / path).stat()
        assert stat.S_IMODE(found.st_mode) == mode
        assert found.st_mtime_ns == wanted.st_mtime_ns
        assert (found.st_uid, found.st_gid) == (wanted.st_uid, wanted.st_gid)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_root_keeps_the_owner(plain: Place) -> None:
    """Of files and directories."""
    source = write_source(plain.path / "src")
    os.chown(source / "m-0.safetensors", 1234, 5678)
    os.chown(source / "sub", 1234, 5678)
    export_plan(plan_of(source), str(plain.path / "dst"), ExportOptions())
    for path in ("m-0.safetensors", "sub"):
        found = (plain.path / "dst" / path).stat()
        assert (found.st_uid, found.st_gid) == (1234, 5678)


def test_link_makes_hard_links_of_untouched_files_only(plain: Place) -> None:
    """They are the source's own inodes, with their attributes; the others are new files."""
    source = write_source(plain.path / "src")
    before = (source / "other.safetensors").stat()
    plan = plan_of(source)
    done = export_plan(plan, str(plain.path / "dst"), ExportOptions(link=True))
    assert done.linked == 3
    assert (plain.path / "dst" / "other.safetensors").samefile(source / "other.safetensors")
    assert not (plain.path / "dst" / "m-0.safetensors").samefile(source / "m-0.safetensors")
    after = (source / "other.safetensors").stat()
    assert (before.st_mode, before.st_mtime_ns) == (after.st_mode, after.st_mtime_ns)
    assert_exported(plan, plain.path / "dst")


def test_a_link_that_exists_already_is_no_obstacle(plain: Place) -> None:
    """A run that was killed between a link and the state that records it is gone on with."""
    source = write_source(plain.path / "src")
    plan = plan_of(source)
    export_plan(plan, str(plain.path / "dst"), ExportOptions(link=True))
    state = plain.path / "dst" / STATE
    content = json.loads(state.read_bytes())
    del content["files"]["other.safetensors"]
    state.write_text(json.dumps(content))
    assert export_plan(plan, str(plain.path / "dst"), ExportOptions(link=True)).kept == 5
    assert_exported(plan, plain.path / "dst")


def test_link_falls_back_on_another_file_system(xfs: Place, tmp_path: Path) -> None:
    """Where a link is impossible it is copied."""
    plan = plan_of(write_source(tmp_path / "src"))
    assert export_plan(plan, str(xfs.path / "dst"), ExportOptions(link=True)).linked == 0
    assert_exported(plan, xfs.path / "dst")


def test_an_export_can_be_exported(plain: Place) -> None:
    """The state of the first is not taken for a file of the checkpoint."""
    plan = plan_of(write_source(plain.path / "src"))
    export_plan(plan, str(plain.path / "one"), ExportOptions())
    again = plan_of((plain.path / "one").resolve(), "")
    export_plan(again, str(plain.path / "two"), ExportOptions())
    assert_exported(plan, plain.path / "two")


def test_a_name_as_long_as_names_may_be(plain: Place) -> None:
    """Its temporary name is not longer."""
    source = write_source(plain.path / "src")
    (source / ("n" * 255)).write_text("x")
    plan = plan_of(source)
    export_plan(plan, str(plain.path / "dst"), ExportOptions())
    assert_exported(plan, plain.path / "dst")


def test_an_empty_directory_that_exists_is_filled_and_keeps_its_mode(plain: Place) -> None:
    """It is the user's own."""
    plan = plan_of(write_source(plain.path / "src"))
    (plain.path / "dst").mkdir(mode=0o711)
    export_plan(plan, str(plain.path / "dst"), ExportOptions())
    assert stat.S_IMODE((plain.path / "dst").stat().st_mode) == 0o711
    assert_exported(plan, plain.path / "dst")


@settings(
    deadline=None,
    max_examples=20,
    suppress_health_check=[
        HealthCheck.filter_too_much,
        HealthCheck.too_slow,
        HealthCheck.function_scoped_fixture,
    ],
)
@given(sample=samples())
def test_random_checkpoints_and_rules(sample: Sample, place: Place) -> None:
    """Every export equals the reader, on each file system."""
    with tempfile.TemporaryDirectory(dir=place.path) as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", folder)
        with sample.on_disk() as root:
            plan = sample.plan(root)
            export_plan(plan, str(Path(folder) / "dst"), ExportOptions())
            assert_exported(plan, Path(folder) / "dst")


def test_progress_is_for_terminals(plain: Place) -> None:
    """One line that says how far it is, of an export and of a comparison; a pipe gets none."""
    source = write_source(plain.path / "src")
    for command in (
        ["export", str(source), str(plain.path / "dst"), "--reflink", "never"],
        ["verify", str(plain.path / "dst"), str(source)],
    ):
        ours, theirs = os.openpty()
        run = subprocess.run(
            [sys.executable, "-m", "remapfs", *command], stdout=subprocess.PIPE, stderr=theirs, check=False
        )
        os.close(theirs)
        shown = os.read(ours, 65536).decode()
        os.close(ours)
        assert run.returncode == 0
        assert (" of 18.9 MB" if command[0] == "export" else "comparing sub/notes.txt: ") in shown
        assert b"\x1b" not in run.stdout
