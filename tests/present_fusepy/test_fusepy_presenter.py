"""A plan mounted through fusepy, and how it compares with the fuse presenter."""

from __future__ import annotations

import errno
import importlib.util
import os
import pickle
import random
import signal
import stat
import subprocess
import sys
import time
from contextlib import suppress
from ctypes.util import find_library
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from remapfs.checkpoint.source import Attributes, identify
from remapfs.plan.extents import Literal, Slice, VirtualFile
from remapfs.plan.model import Plan
from remapfs.plan.tree import Directory
from remapfs.present.options import MountOptions
from remapfs.present.reader import open_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_missing = [
    reason
    for missing, reason in (
        (importlib.util.find_spec("fuse") is None, "the fusepy package is not installed"),
        (find_library("fuse") is None, "libfuse 2 is not installed"),
        (not os.access("/dev/fuse", os.R_OK | os.W_OK), "/dev/fuse cannot be opened"),
    )
    if missing
]
mounting = pytest.mark.skipif(bool(_missing), reason="; ".join(_missing))

_SERVER = """
import pickle, sys
from importlib import import_module
serve = import_module(sys.argv[1]).serve
plan, options = pickle.load(sys.stdin.buffer)
serve(plan, sys.argv[2], options, lambda: print("ready", flush=True))
"""
_PATIENCE = 20


class Served(NamedTuple):
    """A plan and where it is mounted."""

    plan: Plan
    mountpoint: Path
    process: subprocess.Popen[bytes]


def _is_mounted(path: Path) -> bool:
    mountinfo = Path("/proc/self/mountinfo").read_bytes()
    return any(line.split(b" ")[4] == os.fsencode(path) for line in mountinfo.splitlines())


def _wait(process: subprocess.Popen[bytes]) -> str:
    _, errors = process.communicate(timeout=_PATIENCE)
    return errors.decode()


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """Make a directory of two shards, of sizes that are no multiple of a page."""
    directory = tmp_path / r"a source, with \ in its name"
    directory.mkdir()
    bits = random.Random(7)  # noqa: S311 - it need not be a secret
    for name, size in (("one", 3_000_001), ("two", 70_003)):
        (directory / name).write_bytes(bits.randbytes(size))
        os.utime(directory / name, ns=(0, 1_700_000_000_123_456_789))
    return directory


@pytest.fixture
def plan(checkpoint: Path) -> Plan:
    """Make a plan with every kind of file: many extents, a literal only, empty, in a folder, odd names."""
    one, two = (identify(str(path), path.stat()) for path in (checkpoint / "one", checkpoint / "two"))
    attributes = Attributes(0o444, 12, 34, 1_600_000_000_987_654_321)
    folder = Attributes(0o555, 12, 34, 1_500_000_000_000_000_001)
    contents: dict[str, list[Literal | Slice]] = {
        "config.json": [Literal(b"{}\n")],
        "empty": [],
        "deep/er/model-00001-of-00002.safetensors": [Literal(b"h" * 4000), Slice(one, 1000, 2_999_001)],
        "mixed": [Slice(two, 5, 5000), Literal(b"x" * 131_072), Slice(one, 17, 140_000), Slice(two, 0, 3)],
        "name, with \u00e9 and \udcff": [Slice(two, 0, 70_003)],
    }
    files = tuple(VirtualFile.of(path, extents, attributes) for path, extents in sorted(contents.items()))
    directories = tuple(Directory(path, folder) for path in ("", "deep", "deep/er"))
    return Plan(str(checkpoint), files, directories, ())


@pytest.fixture
def serve(plan: Plan, tmp_path: Path) -> Iterator[Callable[..., Served]]:
    """Serve the plan in a process of its own, by the presenter that is named."""
    started: list[Served] = []

    def start(presenter: str = "fusepy", options: MountOptions | None = None) -> Served:
        mountpoint = tmp_path / f"mount {len(started)}"
        mountpoint.mkdir()
        process = subprocess.Popen(
            [sys.executable, "-c", _SERVER, f"remapfs.present.{presenter}", str(mountpoint)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        started.append(Served(plan, mountpoint, process))
        assert process.stdin
        assert process.stdout
        process.stdin.write(pickle.dumps((plan, options or MountOptions())))
        process.stdin.flush()
        answer = process.stdout.readline()
        assert answer == b"ready\n", _wait(process)
        return started[-1]

    yield start
    for served in started:
        if served.process.poll() is None:
            served.process.terminate()
            assert _wait(served.process) == ""
        else:
            for pipe in (served.process.stdin, served.process.stdout, served.process.stderr):
                if pipe:
                    pipe.close()
        left = _is_mounted(served.mountpoint)
        if left:
            subprocess.run(["umount", "-l", served.mountpoint], check=True)
        assert not left


def _contents(file: VirtualFile) -> bytes:
    with open_file(file) as reader:
        return reader.read()


@mounting
def test_bytes_are_the_extents_one_after_another(serve: Callable[..., Served]) -> None:
    """Every file reads as the plain concatenation of its extents, whole and at any offset."""
    served = serve()
    spots = random.Random(11)  # noqa: S311 - it need not be a secret
    for file in served.plan.files:
        wanted = _contents(file)
        path = served.mountpoint / file.path
        assert path.read_bytes() == wanted
        with path.open("rb", buffering=0) as stream:
            for _ in range(50):
                offset, size = spots.randrange(file.size + 10), spots.randrange(300_000)
                assert os.pread(stream.fileno(), size, offset) == wanted[offset : offset + size]


@mounting
def test_stat_shows_what_the_plan_says(serve: Callable[..., Served]) -> None:
    """Mode, owner, times, size and inode number come from the plan."""
    served = serve()
    status = (served.mountpoint / "mixed").stat()
    assert stat.S_ISREG(status.st_mode)
    assert stat.S_IMODE(status.st_mode) == 0o444
    assert (status.st_uid, status.st_gid) == (12, 34)
    assert status.st_mtime_ns == status.st_ctime_ns == 1_600_000_000_987_654_321
    assert status.st_size == 276_075
    assert status.st_blocks == 540
    assert status.st_nlink == 1
    root = served.mountpoint.stat()
    assert stat.S_ISDIR(root.st_mode)
    assert (root.st_ino, root.st_nlink) == (1, 2)
    assert root.st_mtime_ns == 1_500_000_000_000_000_001


@mounting
def test_a_name_that_is_not_there_is_not_found(serve: Callable[..., Served]) -> None:
    """A name outside the plan gives ENOENT."""
    with pytest.raises(FileNotFoundError):
        (serve().mountpoint / "one").stat()


@mounting
def test_every_change_is_refused(serve: Callable[..., Served]) -> None:
    """Each call that would change something fails with EROFS, and the source stays as it was."""
    served = serve()
    file, new, folder = served.mountpoint / "mixed", served.mountpoint / "new", served.mountpoint / "deep"
    calls: list[Callable[[], object]] = [
        lambda: file.open("r+b"),
        lambda: file.open("ab"),
        lambda: new.open("xb"),
        lambda: os.truncate(file, 0),
        file.unlink,
        folder.rmdir,
        new.mkdir,
        lambda: new.symlink_to("mixed"),
        lambda: new.hardlink_to(file),
        lambda: file.rename(new),
        lambda: file.chmod(0o777),
        lambda: os.chown(file, 0, 0),
        lambda: os.utime(file),
        lambda: os.mkfifo(new),
        lambda: os.setxattr(file, "user.a", b"b"),
        lambda: os.removexattr(file, "user.a"),
    ]
    for call in calls:
        with pytest.raises(OSError, match="Read-only file system") as caught:
            call()
        assert caught.value.errno == errno.EROFS


@mounting
def test_the_mount_is_described_as_remapfs(serve: Callable[..., Served]) -> None:
    """The mount's type is fuse.remapfs, its source the checkpoint, its options ro, nosuid and nodev."""
    served = serve()
    line = next(
        line
        for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
        if line.split()[4] == str(served.mountpoint).replace(" ", r"\040")
    )
    before, _, after = line.partition(" - ")
    kind, source, _ = after.split(" ")
    assert kind == "fuse.remapfs"
    assert source.replace(r"\040", " ").replace(r"\134", "\\") == served.plan.root
    assert {"ro", "nosuid", "nodev"} <= set(before.split()[5].split(","))


@mounting
def test_other_users_are_let_in_under_the_modes(serve: Callable[..., Served]) -> None:
    """allow_other comes together with default_permissions."""
    served = serve(options=MountOptions(allow_other=True))
    text = Path("/proc/self/mountinfo").read_text(encoding="utf-8")
    line = next(line for line in text.splitlines() if str(served.mountpoint.parent) in line)
    assert {"allow_other", "default_permissions"} <= set(line.rpartition(" ")[2].split(","))


@mounting
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_the_mount(serve: Callable[..., Served], number: signal.Signals) -> None:
    """SIGTERM, SIGINT and SIGHUP end the server with success, and nothing stays mounted."""
    served = serve()
    served.process.send_signal(number)
    assert _wait(served.process) == ""
    assert served.process.returncode == 0
    assert not _is_mounted(served.mountpoint)


@mounting
def test_a_signal_ends_a_mount_that_is_in_use(serve: Callable[..., Served]) -> None:
    """A reader that still holds a file open does not keep the server alive."""
    served = serve()
    descriptor = os.open(served.mountpoint / "mixed", os.O_RDONLY)
    os.read(descriptor, 1)
    served.process.terminate()
    assert _wait(served.process) == ""
    assert served.process.returncode == 0
    assert not _is_mounted(served.mountpoint)
    with suppress(OSError):  # the kernel cannot tell the server of the close any more
        os.close(descriptor)


@mounting
def test_an_unmount_from_outside_ends_the_server(serve: Callable[..., Served]) -> None:
    """Umount makes the server return with success."""
    served = serve()
    subprocess.run(["umount", served.mountpoint], check=True)
    assert _wait(served.process) == ""
    assert served.process.returncode == 0


@mounting
def test_a_signal_at_any_moment_of_the_start_leaves_nothing_mounted(serve: Callable[..., Served]) -> None:
    """However early SIGTERM comes, no mount is left behind when the server is gone."""
    first = serve()
    first.process.terminate()
    _wait(first.process)
    for step in range(12):
        process = subprocess.Popen(
            [sys.executable, "-c", _SERVER, "remapfs.present.fusepy", str(first.mountpoint)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        assert process.stdin
        process.stdin.write(pickle.dumps((first.plan, MountOptions())))
        process.stdin.close()
        time.sleep(0.05 + 0.02 * step)
        process.terminate()
        process.wait(_PATIENCE)
        assert not _is_mounted(first.mountpoint)


@mounting
def test_a_source_that_changed_reads_as_an_error(serve: Callable[..., Served], checkpoint: Path) -> None:
    """Reading a file whose source changed after the plan fails with EIO, and the log names the source."""
    served = serve()
    with (checkpoint / "two").open("ab") as stream:
        stream.write(b"more")
    with (served.mountpoint / "mixed").open("rb") as reader, pytest.raises(OSError, match="Input/output"):
        reader.read()
    served.process.terminate()
    assert str(checkpoint / "two") in _wait(served.process)


@mounting
def test_a_failure_of_on_ready_ends_the_mount(plan: Plan, tmp_path: Path) -> None:
    """What on_ready raises comes out of serve after the unmount."""
    mountpoint = tmp_path / "here"
    mountpoint.mkdir()
    code = _SERVER.replace('print("ready", flush=True)', "1 / 0")
    result = subprocess.run(
        [sys.executable, "-c", code, "remapfs.present.fusepy", str(mountpoint)],
        input=pickle.dumps((plan, MountOptions())),
        capture_output=True,
        check=False,
        timeout=_PATIENCE,
    )
    assert b"ZeroDivisionError" in result.stderr
    assert not _is_mounted(mountpoint)


def _walk(mountpoint: Path) -> list[tuple[str, int, tuple[int, ...]]]:
    found: list[tuple[str, int, tuple[int, ...]]] = []
    for directory, folders, files in os.walk(mountpoint):
        folders.sort()
        numbers = {entry.name: entry.inode() for entry in os.scandir(directory)}
        for name in sorted([*folders, *files]):
            path = Path(directory) / name
            status = path.stat()
            fields = (
                status.st_ino,
                status.st_mode,
                status.st_nlink,
                status.st_uid,
                status.st_gid,
                status.st_size,
                status.st_blocks,
                status.st_blksize,
                status.st_atime_ns,
                status.st_mtime_ns,
                status.st_ctime_ns,
            )
            found.append((str(path.relative_to(mountpoint)), numbers[name], fields))
    return found


@mounting
def test_fuse_and_fusepy_show_the_same(serve: Callable[..., Served]) -> None:
    """Both presenters give the same tree, the same stat fields and inode numbers, and the same bytes."""
    ours, theirs = serve("fusepy"), serve("fuse")
    walked = _walk(ours.mountpoint)
    assert len(walked) == 7
    assert walked == _walk(theirs.mountpoint)
    for file in ours.plan.files:
        assert (ours.mountpoint / file.path).read_bytes() == (theirs.mountpoint / file.path).read_bytes()
    sizes = ("f_bsize", "f_frsize", "f_blocks", "f_bfree", "f_files", "f_ffree", "f_namemax")
    one, other = os.statvfs(ours.mountpoint), os.statvfs(theirs.mountpoint)
    assert {name: getattr(one, name) for name in sizes} == {name: getattr(other, name) for name in sizes}
