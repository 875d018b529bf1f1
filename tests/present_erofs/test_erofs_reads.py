"""Whatever way a file of an EROFS mount is read, it has the planned bytes; and what else the mount shows."""

from __future__ import annotations

import errno
import mmap
import os
import stat
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from present.test_mount_reads import _READER, uncache
from present.test_mount_tree import CHANGES, inodes
from present_erofs.serving import expected
from remapfs.present.mountpoint import mounted_at

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from pathlib import Path

    from present_erofs.conftest import Served

MIB = 1 << 20
FILE = "model.bin"


def test_every_file_reads_as_planned(shared: Served) -> None:
    """From the start to the end, in all directories, and the empty one too."""
    for path in (FILE, "sub/other.bin", "sub/deep/small", "empty"):
        assert (shared.path / path).read_bytes() == expected(shared.source / path)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(offset=st.integers(0, 6 * MIB), size=st.integers(0, 3 * MIB), cold=st.booleans())
def test_any_pread_is_the_part_of_the_planned_bytes(
    shared: Served,
    offset: int,
    size: int,
    cold: bool,  # noqa: FBT001  # a parameter of the property
) -> None:
    """At any offset and of any size, cached or not."""
    path = shared.path / FILE
    if cold:
        uncache(path)
    with path.open("rb", buffering=0) as stream:
        found = os.pread(stream.fileno(), size, offset)
    assert found == expected(shared.source / FILE)[offset : offset + size]


@pytest.mark.parametrize("flags", [mmap.MAP_SHARED, mmap.MAP_PRIVATE], ids=["shared", "private"])
def test_mmap_has_the_planned_bytes(shared: Served, flags: int) -> None:
    """Both kinds of mapping work: safetensors uses private ones, torch shared ones."""
    content = expected(shared.source / FILE)
    uncache(shared.path / FILE)
    with (
        (shared.path / FILE).open("rb") as stream,
        mmap.mmap(stream.fileno(), 0, flags, mmap.PROT_READ) as mapped,
    ):
        for offset in (len(content) - 1, 3 * MIB + 5, 0):
            assert mapped[offset] == content[offset]
        assert mapped[:] == content


def test_o_direct_is_refused_from_files_and_works_from_loop_devices(shared: Served) -> None:
    """EROFS has direct I/O on block devices only; EINVAL tells a loader so when it opens the file."""
    content = expected(shared.source / FILE)
    if shared.backing == "files":
        with pytest.raises(OSError, match="Invalid argument") as failure:
            os.open(shared.path / FILE, os.O_RDONLY | os.O_DIRECT)
        assert failure.value.errno == errno.EINVAL
        return
    for offset in (0, 4096, 5 * MIB):
        descriptor = os.open(shared.path / FILE, os.O_RDONLY | os.O_DIRECT)
        buffer = mmap.mmap(-1, 2 * MIB)
        done = os.preadv(descriptor, [buffer], offset)
        os.close(descriptor)
        assert buffer[:done] == content[offset : offset + 2 * MIB]


def test_sendfile_has_the_planned_bytes(shared: Served, tmp_path: Path) -> None:
    """As a web server or a copy tool uses it."""
    content = expected(shared.source / FILE)
    with (shared.path / FILE).open("rb") as source, (tmp_path / "copy").open("wb") as target:
        done = 0
        while more := os.sendfile(target.fileno(), source.fileno(), done, len(content)):
            done += more
    assert (tmp_path / "copy").read_bytes() == content


def test_copy_tools_copy(shared: Served, tmp_path: Path) -> None:
    """Cp probes for holes and reflinks first; there are none."""
    subprocess.run(["cp", "-r", shared.path / "sub", tmp_path / "copy"], check=True)
    for path in ("other.bin", "deep/small"):
        assert (tmp_path / "copy" / path).read_bytes() == expected(shared.source / "sub" / path)


def test_eight_interleaved_readers_each_get_their_bytes(shared: Served, tmp_path: Path) -> None:
    """Eight processes at random offsets of one file, with the page cache dropped under them."""
    plain = tmp_path / "plain"
    plain.write_bytes(expected(shared.source / FILE))
    readers = [
        subprocess.Popen([sys.executable, "-c", _READER, shared.path / FILE, plain, str(number)])
        for number in range(8)
    ]
    while any(reader.poll() is None for reader in readers):
        uncache(shared.path / FILE)
    assert [reader.returncode for reader in readers] == [0] * 8


def test_advice_to_read_ahead_is_harmless(shared: Served) -> None:
    """Some kernels lock pages for ever then; they are refused, and this one must not be among them."""
    uncache(shared.path / FILE)
    with (shared.path / FILE).open("rb", buffering=0) as stream:
        os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_WILLNEED)
        assert stream.read() == expected(shared.source / FILE)


def test_stat_is_the_sources_without_write_bits(shared: Served) -> None:
    """Mode, owner and time are the source's; the size is what can be read."""
    for path in (FILE, "sub/other.bin", "empty", "sub", ""):
        seen, real = (shared.path / path).stat(), (shared.source / path).stat()
        assert seen.st_mode == real.st_mode & ~0o222
        assert (seen.st_uid, seen.st_gid) == (real.st_uid, real.st_gid)
        assert seen.st_mtime_ns == seen.st_ctime_ns == seen.st_atime_ns == real.st_mtime_ns
        if stat.S_ISREG(seen.st_mode):
            assert seen.st_size == len(expected(shared.source / path))
            assert seen.st_blocks >= seen.st_size // 512
            assert seen.st_nlink == 1
    assert (shared.path / FILE).stat().st_mtime_ns == 1_600_000_000_123_456_789


def test_a_directory_of_3000_files_is_listed_once_each(shared: Served) -> None:
    """Sorted by name, with the right types, and each name is found."""
    with os.scandir(shared.path / "many") as entries:
        names = [entry.name for entry in entries if entry.is_file(follow_symlinks=False)]
    assert names == [f"file-{number:05}" for number in range(3000)]
    assert all((shared.path / "many" / name).exists() for name in names)
    for name in ("file-03000", "missing", "zzz", "!"):
        assert not (shared.path / "many" / name).exists()


def test_subdirectories_are_found_by_walking(shared: Served) -> None:
    """By find too, which relies on types and link counts."""
    command = ["find", ".", "-mindepth", "1", "-type", "d", "-printf", "%P\\n"]
    found = subprocess.run(command, cwd=shared.path, capture_output=True, text=True, check=True)
    assert set(found.stdout.split()) == {"sub", "sub/deep", "many"}


def test_inode_numbers_are_the_same_after_a_remount(
    source_dir: Path, serving: Callable[..., AbstractContextManager[Served]]
) -> None:
    """From files and from loop devices; readdir gives the same ones as stat."""
    with serving(source_dir) as mount:
        first = inodes(mount.path)
        with os.scandir(mount.path) as entries:
            assert all(entry.inode() == first[entry.name] for entry in entries)
    with serving(source_dir, "loop devices") as mount:
        assert inodes(mount.path) == first
    assert len(set(first.values())) == len(first)


def test_the_mount_is_read_only_and_named_after_its_source(shared: Served) -> None:
    """As df and findmnt show it."""
    status = os.statvfs(shared.path)
    assert status.f_bfree == status.f_bavail == 0
    assert status.f_flag & os.ST_RDONLY
    assert status.f_flag & os.ST_NOSUID
    mount = mounted_at(str(shared.path))
    assert mount is not None
    assert (mount.kind, mount.source, mount.is_ours) == ("erofs", f"remapfs:{shared.source}", True)


def test_there_are_no_extended_attributes(shared: Served) -> None:
    """Reading one says so; there is none in the list."""
    with pytest.raises(OSError, match=r"No data available|not supported"):
        os.getxattr(shared.path / FILE, "user.x")
    assert os.listxattr(shared.path / FILE) == []


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_every_change_is_refused_as_read_only(shared: Served, change: Callable[[Path], object]) -> None:
    """EROFS, and the source is as it was."""
    before = (shared.source / FILE).stat()
    with pytest.raises(OSError) as failure:  # noqa: PT011  # the errno is what is tested
        change(shared.path)
    assert failure.value.errno == errno.EROFS
    assert (shared.source / FILE).stat().st_mtime_ns == before.st_mtime_ns
