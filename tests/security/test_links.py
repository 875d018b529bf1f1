"""Links in a checkpoint lead nowhere else, and what was planned is what is opened."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest

from mounting import missing, remapfs
from remapfs.checkpoint import read_checkpoint, scan
from remapfs.checkpoint import walk as walking
from remapfs.checkpoint.source import ChangedError, open_source
from remapfs.errors import RemapError
from remapfs.plan import make_plan
from remapfs.present.erofs import ImageOptions
from remapfs.present.erofs import mount as mount_erofs
from remapfs.present.mountpoint import mounted_at
from remapfs.present.options import MountOptions
from remapfs.present.sources import SourcePool, sources_of
from remapfs.rules import Rules
from situations import shard

if TYPE_CHECKING:
    from pathlib import Path

    from remapfs.checkpoint.walk import Listing

SECRET = b"root:$6$secret"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Make a checkpoint of one shard, with a secret outside."""
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "shadow").write_bytes(SECRET)
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(shard({"tensors": [["a", "U8", [4]]]}))
    return folder


@pytest.mark.parametrize(
    "target",
    ["../secrets/shadow", "{outside}/secrets/shadow", "../secrets", "..", "/", "sub/../../secrets/shadow"],
)
def test_a_link_out_of_the_checkpoint_is_refused(source: Path, target: str) -> None:
    """Exit code 2 with the link and where it leads, a hint, and nothing of what it leads to."""
    (source / "sub").mkdir()
    (source / "config.json").symlink_to(target.format(outside=source.parent))
    run = remapfs("plan", source)
    assert run.returncode == 2
    assert "error: config.json is a link to " in run.stderr
    assert "outside the checkpoint" in run.stderr
    assert '[[hide]]  files = ["config.json"]' in run.stderr
    assert SECRET.decode() not in run.stderr + run.stdout


def test_a_link_out_by_way_of_another_is_refused(source: Path) -> None:
    """It is where a link leads in the end that counts."""
    (source / "sub").mkdir()
    (source / "sub" / "second").symlink_to("../../secrets/shadow")
    (source / "first").symlink_to("sub/second")
    with pytest.raises(RemapError, match=r"first is a link to .*/secrets/shadow, outside the checkpoint"):
        read_checkpoint(source)


def test_a_directory_beside_whose_name_begins_alike_is_outside(source: Path) -> None:
    """`checkpoint-2` is not in `checkpoint`."""
    other = source.parent / "checkpoint-2"
    other.mkdir()
    (other / "f").touch()
    (source / "f").symlink_to("../checkpoint-2/f")
    with pytest.raises(RemapError, match="outside the checkpoint"):
        read_checkpoint(source)


def cache(root: Path, repository: str) -> Path:
    """Make a repository of a Hugging Face cache with one snapshot of one blob; give the snapshot."""
    snapshot = root / repository / "snapshots" / "0123abc"
    blobs = root / repository / "blobs"
    snapshot.mkdir(parents=True)
    blobs.mkdir()
    (blobs / "f00d").write_bytes(shard({"tensors": [["a", "U8", [4]]]}))
    (snapshot / "model.safetensors").symlink_to("../../blobs/f00d")
    return snapshot


def test_a_hugging_face_snapshot_may_link_to_its_own_blobs(tmp_path: Path) -> None:
    """From its top and from below, as files of a folder do."""
    snapshot = cache(tmp_path, "models--a--b")
    (snapshot / "sub").mkdir()
    (snapshot / "sub" / "config.json").symlink_to("../../../blobs/f00d")
    assert len(read_checkpoint(snapshot).files) == 2


@pytest.mark.parametrize("target", ["../../../models--c--d/blobs/f00d", "../../blobs/../blobs", "../../refs"])
def test_a_hugging_face_snapshot_may_link_to_nothing_else(tmp_path: Path, target: str) -> None:
    """Not to the blobs of another repository, not to the directory itself, not to anything beside it."""
    snapshot = cache(tmp_path, "models--a--b")
    cache(tmp_path, "models--c--d")
    (tmp_path / "models--a--b" / "refs").mkdir()
    (snapshot / "other").symlink_to(target)
    with pytest.raises(RemapError, match=r"other is a link to .*, outside the checkpoint"):
        read_checkpoint(snapshot)


def test_a_blob_that_is_a_link_is_judged_by_its_target(tmp_path: Path) -> None:
    """It is no way out either."""
    snapshot = cache(tmp_path, "models--a--b")
    (tmp_path / "shadow").write_bytes(SECRET)
    (tmp_path / "models--a--b" / "blobs" / "evil").symlink_to(tmp_path / "shadow")
    (snapshot / "config.json").symlink_to("../../blobs/evil")
    with pytest.raises(RemapError, match=r"config.json is a link to .*shadow, outside the checkpoint"):
        read_checkpoint(snapshot)


def _swap_file(source: Path) -> None:
    (source / "model.safetensors").unlink()
    (source / "model.safetensors").symlink_to("../secrets/shadow")


def _swap_directory(source: Path) -> None:
    source.rename(source.with_name("before"))
    source.symlink_to("secrets")
    shutil.copy2(source.with_name("before") / "model.safetensors", source / "model.safetensors")


def _swap_directory_for_a_link_to_itself(source: Path) -> None:
    source.rename(source.with_name("before"))
    source.symlink_to("before")


SWAPS = (_swap_file, _swap_directory, _swap_directory_for_a_link_to_itself)


@pytest.mark.parametrize("swap", SWAPS)
def test_a_link_put_in_place_after_the_plan_is_not_followed(source: Path, swap: object) -> None:
    """Neither for the file nor for a directory above it, not even where it leads to the same file."""
    (file,) = read_checkpoint(source).files
    assert callable(swap)
    swap(source)
    with pytest.raises(ChangedError, match="its path leads through a link now"):
        open_source(file.source)


@pytest.mark.parametrize("presenter", ["fuse", "erofs"])
@pytest.mark.parametrize("swap", SWAPS)
def test_a_mount_refuses_what_was_put_in_place_after_the_plan(
    source: Path, tmp_path: Path, swap: object, presenter: str
) -> None:
    """Before anything is mounted, with the path of the file."""
    plan = make_plan(read_checkpoint(source), Rules("none"))
    assert callable(swap)
    swap(source)
    if presenter == "fuse":
        with pytest.raises(RemapError, match=r"model\.safetensors: changed since it was planned"):
            SourcePool(sources_of(plan))
        return
    reason = missing("erofs")
    if reason:
        pytest.skip(reason)
    mountpoint = tmp_path / "mnt"
    mountpoint.mkdir()
    with pytest.raises(RemapError, match=r"model\.safetensors: changed since it was planned"):
        mount_erofs(plan, str(mountpoint), MountOptions(), ImageOptions(None))
    assert mounted_at(str(mountpoint)) is None


@pytest.mark.parametrize("name", ["model.safetensors", "model.safetensors.index.json"])
def test_a_file_swapped_while_the_plan_is_made_is_refused(
    source: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Between the listing and the reading: headers and indexes are those of the file that was listed."""
    if name.endswith(".json"):
        (source / name).write_text('{"weight_map": {"a": "model.safetensors"}}')
    walk = walking.walk

    def swapping(*arguments: object) -> Listing:
        listing = walk(*arguments)  # type: ignore[arg-type]  # what it was called with
        content = (source / name).read_bytes()
        (source / "new").write_bytes(content)
        os.replace(source / "new", source / name)
        return listing

    monkeypatch.setattr(scan, "walk", swapping)
    with pytest.raises(RemapError, match=rf"{name} changed since it was planned: .*inode was"):
        read_checkpoint(source)


def test_a_kernel_without_openat2_opens_what_is_no_link(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or a container whose filter does not know it: the file itself is still not followed if it is a link."""
    (file,) = read_checkpoint(source).files
    monkeypatch.setattr("remapfs.checkpoint.source._OPENAT2", 100_000)
    os.close(open_source(file.source))
    _swap_file(source)
    with pytest.raises(ChangedError):
        open_source(file.source)
