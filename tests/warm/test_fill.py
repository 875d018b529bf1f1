"""Files are read into the page cache in order, as far as memory allows, and none twice."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from mounting import missing
from present.conftest import random_bytes
from remapfs import RemapError
from remapfs.cli.main import remapfs
from remapfs.demo import write_checkpoint
from remapfs.errors import RuntimeFailure
from remapfs.present.cachestat import is_cached
from remapfs.present.mountpoint import unmount
from remapfs.warm import fill, shards_of
from remapfs.warm.files import natural
from remapfs.warm.memory import Memory, memory

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SIZE = 20 << 20


@pytest.fixture
def shards(tmp_path: Path) -> Path:
    """Make three files that are on the disk and not in the page cache."""
    for number in (1, 2, 10):
        path = tmp_path / f"model-{number}.safetensors"
        path.write_bytes(random_bytes(SIZE, number))
        with path.open("rb") as stream:
            os.fsync(stream.fileno())
            os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return tmp_path


def cached(path: Path | str) -> bool:
    """Whether all of a file is cached; skips where the kernel cannot say."""
    with open(path, "rb") as stream:
        try:
            return is_cached(stream.fileno(), 0, os.fstat(stream.fileno()).st_size)
        except OSError as error:
            if error.errno != errno.ENOSYS:
                raise
            pytest.skip("the kernel has no cachestat(2): Linux 6.5")


def plenty() -> Memory:
    """Say that there is more memory than anybody needs."""
    return Memory(1 << 50, 1 << 50)


def test_shards_come_in_the_order_in_which_people_count(shards: Path) -> None:
    """As a loader reads them: 2 before 10."""
    assert [os.path.basename(path) for path in shards_of(str(shards))] == [
        "model-1.safetensors",
        "model-2.safetensors",
        "model-10.safetensors",
    ]
    assert sorted(["b10", "b9", "a"], key=natural) == ["a", "b9", "b10"]


def test_all_is_in_the_page_cache_afterwards(shards: Path) -> None:
    """Every file, whole; the second time there is nothing to read."""
    paths = shards_of(str(shards))
    assert not any(map(cached, paths))
    report = fill(paths, 0, look=plenty)
    assert (report.files, report.warmed, report.cached, report.left) == (3, 3 * SIZE, 0, 0)
    assert all(map(cached, paths))
    again = fill(paths, 0, look=plenty)
    assert (again.warmed, again.cached, again.left) == (0, 3 * SIZE, 0)


def test_it_stops_where_memory_would_fall_below_the_reserve(shards: Path) -> None:
    """The first file fits, and is warm; what is left is counted."""
    paths = shards_of(str(shards))
    report = fill(paths, 1 << 30, threads=1, look=lambda: Memory(2 << 30, (1 << 30) + SIZE))
    assert cached(paths[0])
    assert not cached(paths[2])
    assert report.warmed == SIZE
    assert report.left == 2 * SIZE


def test_memory_that_others_take_meanwhile_counts(shards: Path) -> None:
    """It is looked at again and again."""
    looks = iter([1 << 40, 1 << 40, 0])
    report = fill(shards_of(str(shards)), 0, threads=1, look=lambda: Memory(1 << 40, next(looks)))
    assert report.warmed == 16 << 20


def test_a_mount_is_warmed_in_its_own_cache(tmp_path: Path) -> None:
    """What the mount shows is cached, not only what lies below it."""
    reason = missing("fuse")
    if reason:
        pytest.skip(reason)
    source, mountpoint = tmp_path / "source", tmp_path / "mount"
    source.mkdir()
    mountpoint.mkdir()
    write_checkpoint(source)
    subprocess.run(
        [
            sys.executable,
            "-m",
            "remapfs",
            "mount",
            source,
            mountpoint,
            "--preset",
            "deepseek-v4",
            "--background",
        ],
        check=True,
    )
    try:
        run = CliRunner().invoke(remapfs, ["warm", str(mountpoint), "--reserve", "0"])
        assert run.exit_code == 0, run.output
        assert all(map(cached, shards_of(str(mountpoint))))
    finally:
        unmount(str(mountpoint))


def test_a_file_that_has_become_shorter_is_a_failure(shards: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the file and where it ends."""
    paths = shards_of(str(shards))
    real = os.stat
    monkeypatch.setattr(os, "stat", lambda path: Longer(real(path)))
    with pytest.raises(RuntimeFailure, match=r"model-1\.safetensors ends at byte"):
        fill(paths[:1], 0, look=plenty)


class Longer:
    """What stat says of a file, but for its size."""

    def __init__(self, status: os.stat_result) -> None:
        self.st_size = status.st_size + 100


def test_what_cannot_be_read_is_a_failure(shards: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With file, offset and reason; exit code 1."""

    def fail(*_: object) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "preadv", fail)
    with pytest.raises(RuntimeFailure, match="cannot be read at byte 0: Input/output error"):
        fill(shards_of(str(shards))[:1], 0, threads=1, look=plenty)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (lambda root: (str(root / "none"),), "does not exist"),
        (lambda root: (str(root / "model-1.safetensors"),), "is not a directory"),
        (lambda root: (str(root), ["model-3.safetensors"]), "is no file"),
        (lambda root: (str(root / "empty"),), r"no \*\.safetensors file"),
    ],
)
def test_bad_input_is_refused(
    shards: Path, arguments: Callable[[Path], tuple[str, list[str]]], error: str
) -> None:
    """Exit code 2."""
    (shards / "empty").mkdir()
    with pytest.raises(RemapError, match=error):
        shards_of(*arguments(shards))


def test_the_host_has_memory() -> None:
    """Less than all of it is available, and more than nothing."""
    found = memory()
    assert 0 < found.available <= found.total
