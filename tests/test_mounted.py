"""Each situation of tests/mounted, as a reader of the mount meets it."""

from __future__ import annotations

import errno
import mmap
import os
import random
import shlex
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from safetensors import safe_open

from mounting import missing, mounted, remapfs
from remapfs import open_file
from situations import HERE, Situation, values

if TYPE_CHECKING:
    from collections.abc import Callable

needs_fuse = pytest.mark.skipif(bool(missing()), reason=missing() or "")
needs_erofs = pytest.mark.skipif(bool(missing("erofs")), reason=missing("erofs") or "")
_PRESENTERS = pytest.mark.parametrize(
    "presenter", [pytest.param("fuse", marks=needs_fuse), pytest.param("erofs", marks=needs_erofs)]
)
_SHARDS = 1500
_CHANGES: dict[str, Callable[[Path], object]] = {
    "open to write": lambda root: os.open(root / "model.safetensors", os.O_WRONLY),
    "open to read and write": lambda root: os.open(root / "model.safetensors", os.O_RDWR),
    "open to truncate": lambda root: os.open(root / "model.safetensors", os.O_RDONLY | os.O_TRUNC),
    "create": lambda root: os.open(root / "new", os.O_CREAT | os.O_RDWR),
    "truncate": lambda root: os.truncate(root / "model.safetensors", 0),
    "rename": lambda root: os.rename(root / "model.safetensors", root / "other"),
    "rename a directory": lambda root: os.rename(root / "sub", root / "other"),
    "unlink": lambda root: os.unlink(root / "model.safetensors"),
    "mkdir": lambda root: os.mkdir(root / "new"),
    "rmdir": lambda root: os.rmdir(root / "sub"),
    "link": lambda root: os.link(root / "model.safetensors", root / "new"),
    "symlink": lambda root: os.symlink("x", root / "new"),
    "mknod": lambda root: os.mknod(root / "new"),
    "chmod": lambda root: os.chmod(root / "model.safetensors", 0o600),
    "chown": lambda root: os.chown(root / "model.safetensors", 0, 0),
    "utime": lambda root: os.utime(root / "model.safetensors"),
    "set an extended attribute": lambda root: os.setxattr(root / "model.safetensors", "user.a", b"b"),
    "remove an extended attribute": lambda root: os.removexattr(root / "model.safetensors", "user.a"),
}


def situation(name: str) -> Situation:
    """Find a situation of tests/mounted."""
    return Situation(HERE / "mounted" / name)


@_PRESENTERS
@pytest.mark.parametrize("flags", [mmap.MAP_SHARED, mmap.MAP_PRIVATE], ids=["shared", "private"])
def test_u01_a_shard_can_be_mapped(tmp_path: Path, flags: int, presenter: str) -> None:
    """A shared and a private map have the bytes of the file, and safetensors opens it, which maps it too."""
    case = situation("U01-mmap")
    source = case.make(tmp_path)
    planned = open_file(case.plan(source).files[0]).read()
    with mounted(source, case.arguments, presenter) as root:
        with (
            open(root / "model.safetensors", "rb") as stream,
            mmap.mmap(stream.fileno(), 0, flags=flags, prot=mmap.PROT_READ) as mapped,
        ):
            assert mapped[:] == planned
        with safe_open(root / "model.safetensors", framework="np") as shard:
            assert set(shard.keys()) == {"a", "b"}
            assert shard.get_tensor("a").tobytes() == values("model.a", 48_000)


@_PRESENTERS
def test_u03_interleaved_readers_do_not_disturb_each_other(tmp_path: Path, presenter: str) -> None:
    """Eight threads that read at random places, on a shared descriptor and their own, get their bytes."""
    case = situation("U03-interleaved-readers")
    source = case.make(tmp_path)
    planned = open_file(case.plan(source).files[0]).read()

    def read(seed: int, shared: int, path: Path) -> bool:
        dice = random.Random(seed)  # noqa: S311  # places to read at
        own = os.open(path, os.O_RDONLY)
        try:
            for _ in range(100):
                offset, size = dice.randrange(len(planned)), dice.randrange(1, 1 << 20)
                for descriptor in (own, shared):
                    if os.pread(descriptor, size, offset) != planned[offset : offset + size]:
                        return False
        finally:
            os.close(own)
        return True

    with (
        mounted(source, case.arguments, presenter) as root,
        open(root / "model.safetensors", "rb") as stream,
        ThreadPoolExecutor(8) as pool,
    ):
        assert all(pool.map(lambda seed: read(seed, stream.fileno(), root / "model.safetensors"), range(8)))


@_PRESENTERS
def test_u04_the_type_and_the_source_are_shown(tmp_path: Path, presenter: str) -> None:
    """/proc/mounts says fuse.remapfs, or erofs of remapfs, and names the source directory."""
    case = situation("U04-file-system-type")
    source = case.make(tmp_path)
    with mounted(source, (), presenter) as root:
        lines = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
        found = [(device, kind) for device, where, kind, *_ in lines if where == str(root)]
    wanted = {"fuse": (str(source), "fuse.remapfs"), "erofs": (f"remapfs:{source}", "erofs")}
    assert found == [wanted[presenter]]


@_PRESENTERS
def test_u08_1500_shards_need_few_descriptors(tmp_path: Path, presenter: str) -> None:
    """With soft and hard limit at 1,024 open files, 1,500 shards are mounted and each is read right."""
    case = situation("U08-1500-shards-1024-descriptors")
    first = case.make(tmp_path) / "model.safetensors"
    for number in range(1, _SHARDS):
        shutil.copy(first, tmp_path / f"model-{number:05}.safetensors")
    planned = open_file(case.plan(tmp_path).files[0]).read()
    mountpoint = Path(tempfile.mkdtemp(prefix="remapfs-test-"))
    command = [
        sys.executable,
        "-m",
        "remapfs",
        "mount",
        tmp_path,
        mountpoint,
        *case.arguments,
        "--presenter",
        presenter,
        "--background",
    ]
    shell = f"ulimit -n 1024; exec {shlex.join(map(str, command))}"
    try:
        run = subprocess.run(["sh", "-c", shell], capture_output=True, text=True, check=False, timeout=120)
        assert (run.returncode, run.stdout) == (0, ""), run.stderr
        found = {path.name: path.read_bytes() for path in mountpoint.iterdir()}
    finally:
        remapfs("umount", mountpoint)
        mountpoint.rmdir()
    assert len(found) == _SHARDS
    assert set(found.values()) == {planned}


@_PRESENTERS
@pytest.mark.parametrize("change", _CHANGES)
def test_u09_every_change_says_read_only(tmp_path: Path, change: str, presenter: str) -> None:
    """Each call that would change something fails with EROFS, and the source stays as it was."""
    case = situation("U09-writers")
    source = case.make(tmp_path)
    before = (source / "model.safetensors").read_bytes()
    with (
        mounted(source, (), presenter) as root,
        pytest.raises(OSError, match="Read-only file system") as caught,
    ):
        _CHANGES[change](root)
    assert caught.value.errno == errno.EROFS
    assert (source / "model.safetensors").read_bytes() == before
