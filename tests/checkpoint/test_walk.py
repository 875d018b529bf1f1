"""What lies below a checkpoint's root."""

from __future__ import annotations

import os
import socket
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from remapfs import RemapError
from remapfs.checkpoint.walk import Listing, reachable, walk

if TYPE_CHECKING:
    from pathlib import Path


def status(mode: int, uid: int = 1, gid: int = 1) -> os.stat_result:
    """Make the part of a status that permissions need."""
    return cast("os.stat_result", SimpleNamespace(st_mode=mode, st_uid=uid, st_gid=gid))


def listed(root: Path, hidden: tuple[str, ...] = ()) -> Listing:
    """Walk a directory."""
    return walk(os.path.realpath(root), lambda path: path in hidden)


@pytest.mark.parametrize(
    ("ancestors", "mask"),
    [
        ([], 0o777),
        ([(0o755, 0, 0), (0o711, 9, 9)], 0o777),
        ([(0o700, 1, 1)], 0o700),
        ([(0o700, 9, 9)], 0o000),
        ([(0o750, 9, 1)], 0o070),
        ([(0o750, 1, 1)], 0o770),
        ([(0o750, 1, 9)], 0o700),
        ([(0o755, 9, 9), (0o750, 1, 1), (0o700, 1, 9)], 0o700),
        ([(0o070, 1, 1)], 0o000),
        ([(0o666, 1, 1)], 0o000),
    ],
)
def test_who_is_kept_out_above_is_kept_out_below(ancestors: list[tuple[int, int, int]], mask: int) -> None:
    """A class passes a closed directory only if it is surely the same people there."""
    assert reachable(status(0o644), [status(*ancestor) for ancestor in ancestors]) == mask


def test_files_and_folders_are_listed_in_the_order_of_their_paths(tmp_path: Path) -> None:
    """Relative to the root, without the write bits."""
    for path in ("b", "a/x", "a/y/z", "a-b"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(path)
    (tmp_path / "b").chmod(0o664)
    listing = listed(tmp_path)
    assert [file.path for file in listing.files] == ["a-b", "a/x", "a/y/z", "b"]
    assert [folder.path for folder in listing.folders] == ["", "a", "a/y"]
    last = listing.files[-1]
    assert last.source.path == os.path.realpath(tmp_path / "b")
    assert last.source.changed((tmp_path / "b").stat()) is None
    assert last.attributes.mode == 0o444


def test_links_are_followed(tmp_path: Path) -> None:
    """A file's source is what it points to in the end; a directory appears under each of its names."""
    (tmp_path / "blobs").mkdir()
    (tmp_path / "blobs" / "f00").write_text("content")
    (tmp_path / "model").symlink_to("blobs/f00")
    (tmp_path / "again").symlink_to("model")
    (tmp_path / "one").symlink_to("blobs")
    (tmp_path / "two").symlink_to(tmp_path / "blobs")
    listing = listed(tmp_path)
    assert [file.path for file in listing.files] == ["again", "blobs/f00", "model", "one/f00", "two/f00"]
    assert {file.source.path for file in listing.files} == {os.path.realpath(tmp_path / "blobs" / "f00")}


def test_a_link_out_of_a_closed_directory_keeps_it_closed(tmp_path: Path) -> None:
    """The target is open, but nobody else could reach it."""
    closed = tmp_path / "blobs"
    closed.mkdir()
    (closed / "f").write_text("x")
    (closed / "f").chmod(0o644)
    root = tmp_path / "snapshots" / "main"
    root.mkdir(parents=True)
    (root / "f").symlink_to("../../blobs/f")
    closed.chmod(0o700)
    assert listed(root).files[0].attributes.mode == 0o400


@pytest.mark.parametrize("target", ["..", ".", "../deep"])
def test_a_loop_is_refused(tmp_path: Path, target: str) -> None:
    """By the link and the directory that it leads back to, with the rule that leaves it out."""
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "link").symlink_to(target)
    with pytest.raises(
        RemapError, match=r"deep/link is a link to the directory '.*' that contains it: a loop"
    ) as e:
        listed(tmp_path)
    assert e.value.hint.endswith('[[hide]]  files = ["deep/link"]')
    assert listed(tmp_path, ("deep/link",)).hidden == ["deep/link"]


@pytest.mark.parametrize("target", ["nowhere", "itself"])
def test_a_dangling_link_is_refused(tmp_path: Path, target: str) -> None:
    """With what it points to; hidden, it does not matter."""
    (tmp_path / "itself").symlink_to(target)
    with pytest.raises(RemapError, match=f"^itself is a link to {target}, which cannot be followed: "):
        listed(tmp_path)
    assert listed(tmp_path, ("itself",)).files == []


def test_what_is_no_file_is_left_out_and_noted(tmp_path: Path) -> None:
    """Sockets and pipes."""
    os.mkfifo(tmp_path / "pipe")
    here = os.open(".", os.O_RDONLY)
    with socket.socket(socket.AF_UNIX) as server:
        try:
            os.chdir(tmp_path)
            server.bind("socket")
        finally:
            os.fchdir(here)
            os.close(here)
        listing = listed(tmp_path)
    assert listing.files == []
    assert [(note.file, note.text, note.healed) for note in listing.notes] == [
        (name, "is not a regular file and is left out", False) for name in ("pipe", "socket")
    ]


def test_a_hidden_directory_is_not_entered(tmp_path: Path) -> None:
    """What is in it is not looked at."""
    (tmp_path / "original").mkdir()
    (tmp_path / "original" / "dangling").symlink_to("nowhere")
    listing = listed(tmp_path, ("original",))
    assert (listing.files, listing.hidden) == ([], ["original"])


@pytest.mark.skipif(os.geteuid() == 0, reason="root may list any directory")
def test_a_directory_that_cannot_be_listed_is_refused(tmp_path: Path) -> None:
    """It may hold shards."""
    (tmp_path / "closed").mkdir(mode=0o000)
    with pytest.raises(RemapError, match=r"cannot list .*closed: Permission denied"):
        listed(tmp_path)
