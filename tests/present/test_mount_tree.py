"""What a mount shows besides its bytes, and that nothing in it can be changed."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
from typing import TYPE_CHECKING

import pytest

from present.plans import expected
from remapfs.present.mountpoint import mounted_at

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from pathlib import Path

    from present.conftest import Served


def inodes(root: Path) -> dict[str, int]:
    """Map every path below a directory to its inode number."""
    return {str(path.relative_to(root)): path.lstat().st_ino for path in sorted(root.rglob("*"))}


def test_a_directory_of_3000_files_is_listed_once_each(shared: Served) -> None:
    """In one pass, sorted by name, with the right types; again from the cache."""
    for _ in range(2):
        with os.scandir(shared.path / "many") as entries:
            names = [entry.name for entry in entries if entry.is_file(follow_symlinks=False)]
        assert names == [f"file-{number:05}" for number in range(3000)]


def test_subdirectories_are_found_by_walking(shared: Served) -> None:
    """By Python and by find, which both rely on types and link counts."""
    wanted = {"sub", "sub/deep", "many"}
    walked = {
        os.path.relpath(os.path.join(folder, name), shared.path)
        for folder, names, _ in os.walk(shared.path)
        for name in names
    }
    assert walked == wanted
    found = subprocess.run(
        ["find", ".", "-mindepth", "1", "-type", "d", "-printf", "%P\\n"],
        cwd=shared.path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert set(found.stdout.split()) == wanted


def test_stat_is_the_sources_without_write_bits(shared: Served) -> None:
    """Mode, owner and time are the source's; the size is what can be read."""
    for path in ("model.bin", "sub/other.bin", "empty", "sub", ""):
        seen, real = (shared.path / path).stat(), (shared.source / path).stat()
        assert seen.st_mode == real.st_mode & ~0o222
        assert (seen.st_uid, seen.st_gid) == (real.st_uid, real.st_gid)
        assert seen.st_mtime_ns == seen.st_ctime_ns == seen.st_atime_ns == real.st_mtime_ns
        if stat.S_ISREG(seen.st_mode):
            assert seen.st_size == len(expected(shared.source / path))
            assert seen.st_blocks == -(-seen.st_size // 512)
            assert seen.st_nlink == 1
    assert (shared.path / "model.bin").stat().st_mtime_ns == 1_600_000_000_123_456_789


def test_inode_numbers_are_the_same_after_a_remount(
    source_dir: Path, serving: Callable[[Path], AbstractContextManager[Served]]
) -> None:
    """They depend on the paths alone, and readdir gives the same ones as stat."""
    with serving(source_dir) as mount:
        first = inodes(mount.path)
        with os.scandir(mount.path) as entries:
            assert all(entry.inode() == first[entry.name] for entry in entries)
    with serving(source_dir) as mount:
        assert inodes(mount.path) == first
    assert len(set(first.values())) == len(first)


def test_a_missing_name_is_missing_each_time(shared: Served) -> None:
    """Also when the kernel remembers it."""
    for _ in range(2):
        assert not (shared.path / "missing").exists()
        assert not (shared.path / "sub" / "missing").exists()
    with pytest.raises(NotADirectoryError):
        (shared.path / "model.bin" / "below").stat()


def test_the_file_system_is_full_and_read_only(shared: Served) -> None:
    """As df shows it."""
    status = os.statvfs(shared.path)
    total = sum(len(expected(path)) for path in shared.source.rglob("*") if path.is_file())
    assert status.f_blocks * status.f_frsize == -(-total // 4096) * 4096
    assert status.f_bfree == status.f_bavail == 0
    assert status.f_flag & os.ST_RDONLY
    assert status.f_flag & os.ST_NOSUID


def test_the_mount_is_named_after_its_source(shared: Served) -> None:
    """Type and source are what findmnt shows."""
    mount = mounted_at(str(shared.path))
    assert mount is not None
    assert (mount.kind, mount.source) == ("fuse.remapfs", str(shared.source))


def test_extended_attributes_are_not_supported(shared: Served) -> None:
    """Reading them says so each time; tools take that for none."""
    for _ in range(2):
        with pytest.raises(OSError, match="Operation not supported"):
            os.getxattr(shared.path / "model.bin", "user.x")
        with pytest.raises(OSError, match="Operation not supported"):
            os.listxattr(shared.path / "model.bin")


CHANGES: dict[str, Callable[[Path], object]] = {
    "open for writing": lambda root: os.open(root / "model.bin", os.O_WRONLY),
    "open for both": lambda root: os.open(root / "model.bin", os.O_RDWR),
    "open truncating": lambda root: os.open(root / "model.bin", os.O_RDONLY | os.O_TRUNC),
    "create": lambda root: os.open(root / "new", os.O_RDONLY | os.O_CREAT),
    "create exclusively": lambda root: os.open(root / "new", os.O_WRONLY | os.O_CREAT | os.O_EXCL),
    "create without a name": lambda root: os.open(root, os.O_RDWR | os.O_TMPFILE),
    "truncate": lambda root: os.truncate(root / "model.bin", 0),
    "rename": lambda root: (root / "model.bin").rename(root / "other"),
    "replace": lambda root: (root / "model.bin").replace(root / "empty"),
    "unlink": lambda root: (root / "model.bin").unlink(),
    "mkdir": lambda root: (root / "new").mkdir(),
    "rmdir": lambda root: (root / "sub").rmdir(),
    "symlink": lambda root: (root / "new").symlink_to("model.bin"),
    "link": lambda root: (root / "new").hardlink_to(root / "model.bin"),
    "mkfifo": lambda root: os.mkfifo(root / "new"),
    "mknod": lambda root: os.mknod(root / "new"),
    "chmod": lambda root: (root / "model.bin").chmod(0o777),
    "chown": lambda root: os.chown(root / "model.bin", 1, 1),
    "utime": lambda root: os.utime(root / "model.bin"),
    "setxattr": lambda root: os.setxattr(root / "model.bin", "user.x", b"y"),
    "removexattr": lambda root: os.removexattr(root / "model.bin", "user.x"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_every_change_is_refused_as_read_only(shared: Served, change: Callable[[Path], object]) -> None:
    """EROFS, and the source is as it was."""
    before = (shared.source / "model.bin").stat()
    with pytest.raises(OSError) as failure:  # noqa: PT011 - the errno is what is tested
        change(shared.path)
    assert failure.value.errno == errno.EROFS
    assert (shared.source / "model.bin").stat().st_mtime_ns == before.st_mtime_ns
