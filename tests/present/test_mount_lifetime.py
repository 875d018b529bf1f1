"""How a mount begins and ends, and that it never stays behind."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import remapfs
from present import plans
from present.plans import expected, plan_of
from remapfs.errors import RemapError, RuntimeFailure
from remapfs.present.fuse import Session, live
from remapfs.present.fuse.wire import MAX_READ
from remapfs.present.mountpoint import check_mountpoint, mounted_at, unmount
from remapfs.present.options import MountOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from present.conftest import Served

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can unmount without fusermount3")


@pytest.fixture
def mountpoint(fuse: None) -> Iterator[Path]:  # noqa: ARG001 - for its skip
    """Make a fresh directory to mount on."""
    path = Path(tempfile.mkdtemp(prefix="remapfs-test-"))
    yield path
    assert mounted_at(str(path)) is None
    path.rmdir()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_the_mount_cleanly(served: Served, number: signal.Signals) -> None:
    """Exit code 0, nothing mounted."""
    assert (served.path / "model.bin").stat()
    served.process.send_signal(number)
    code, log = served.end()
    assert code == 0
    assert f"stopping on {number.name}" in log
    assert mounted_at(str(served.path)) is None


def test_a_signal_ends_a_mount_that_is_in_use(served: Served) -> None:
    """It is detached with one line in the log; the open file then fails instead of waiting."""
    descriptor = os.open(served.path / "model.bin", os.O_RDONLY)
    served.process.send_signal(signal.SIGTERM)
    code, log = served.end()
    assert code == 0
    assert log.count("still in use") == 1
    assert mounted_at(str(served.path)) is None
    with pytest.raises(OSError) as failure:  # noqa: PT011 - the errno is what is tested
        os.pread(descriptor, 4096, 4 << 20)
    assert failure.value.errno in {errno.ENOTCONN, errno.ECONNABORTED}
    with contextlib.suppress(OSError):  # closing tells the server too, which is gone
        os.close(descriptor)


@needs_root
def test_an_unmount_from_outside_ends_the_server(served: Served) -> None:
    """Exit code 0: that is how an administrator ends it."""
    subprocess.run(["umount", served.path], check=True)
    code, log = served.end()
    assert code == 0
    assert "unmounted" in log


def test_unmount_ends_a_mount_and_refuses_one_in_use(served: Served) -> None:
    """As the command line does it."""
    with (served.path / "model.bin").open("rb"), pytest.raises(RuntimeFailure, match="is in use") as failure:
        unmount(str(served.path))
    assert f"fuser -vm {served.path}" in failure.value.hint
    unmount(str(served.path))
    assert served.end()[0] == 0
    assert mounted_at(str(served.path)) is None


def test_a_dead_mount_is_named_and_can_be_cleared(served: Served) -> None:
    """Nothing can be done when all its processes are killed; the next mount says what clears the way."""
    server = served.server()
    served.process.kill()
    os.kill(server, signal.SIGKILL)
    served.end()
    with pytest.raises(OSError, match="not connected"):
        os.statvfs(served.path)
    with pytest.raises(RemapError, match=f"a dead mount of {served.source} is in the way") as failure:
        check_mountpoint(plan_of(served.source), str(served.path))
    assert str(served.path) in failure.value.hint
    unmount(str(served.path))
    assert mounted_at(str(served.path)) is None
    assert check_mountpoint(plan_of(served.source), str(served.path)) == str(served.path)


def test_a_second_mount_at_the_same_place_is_refused(served: Served) -> None:
    """With what is there already, and without touching it."""
    with pytest.raises(RemapError, match=f"{served.source} is already mounted at"):
        Session(plan_of(served.source), str(served.path)).start()
    assert (served.path / "sub" / "deep" / "small").read_bytes() == expected(
        served.source / "sub" / "deep" / "small"
    )


def test_a_signal_at_any_moment_leaves_nothing_mounted(source_dir: Path, mountpoint: Path) -> None:
    """From before the mount until after it is ready."""
    for step in range(12):
        process = subprocess.Popen(
            [sys.executable, plans.__file__, source_dir, mountpoint],
            env={**os.environ, "PYTHONPATH": str(Path(remapfs.__file__).parents[1])},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + 10
        while step % 3 and mounted_at(str(mountpoint)) is None and time.monotonic() < deadline:
            time.sleep(0.0005)
        time.sleep(0.02 * step if step % 3 == 0 else 0.001 * step)
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=20)
        assert mounted_at(str(mountpoint)) is None


def test_a_session_serves_while_its_context_lasts(source_dir: Path, mountpoint: Path) -> None:
    """In the process that uses it, with any number of threads."""
    for threads in (1, 3):
        with Session(plan_of(source_dir), str(mountpoint), MountOptions(threads=threads)):
            assert (mountpoint / "model.bin").read_bytes() == expected(source_dir / "model.bin")
        assert list(mountpoint.iterdir()) == []


def test_an_exception_in_the_context_unmounts(source_dir: Path, mountpoint: Path) -> None:
    """A failing on_ready is such a case."""
    with pytest.raises(ZeroDivisionError), Session(plan_of(source_dir), str(mountpoint)):
        raise ZeroDivisionError
    assert mounted_at(str(mountpoint)) is None


def test_a_failure_while_starting_leaves_nothing_mounted(
    source_dir: Path, mountpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also after the mount exists."""

    def fail(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(live, "raise_read_ahead", fail)
    with pytest.raises(ZeroDivisionError):
        Session(plan_of(source_dir), str(mountpoint)).start()
    assert mounted_at(str(mountpoint)) is None


@needs_root
def test_the_read_ahead_is_that_of_the_options(source_dir: Path, mountpoint: Path) -> None:
    """The kernel's own would be 128 KiB."""
    with Session(plan_of(source_dir), str(mountpoint), MountOptions(read_ahead=2 << 20)):
        mount = mounted_at(str(mountpoint))
        assert mount is not None
        assert Path(f"/sys/class/bdi/{mount.device}/read_ahead_kb").read_text() == f"{2 * MAX_READ >> 10}\n"


def test_idle_threads_use_no_time(served: Served) -> None:
    """They wait in the kernel; nothing polls."""
    (served.path / "model.bin").stat()
    usages = [Path(f"/proc/{pid}/stat") for pid in (served.process.pid, served.server())]

    def ticks() -> int:
        fields = [usage.read_text().rpartition(")")[2].split() for usage in usages]
        return sum(int(each[11]) + int(each[12]) for each in fields)

    before = ticks()
    time.sleep(1)
    assert ticks() - before <= 1


@needs_root
def test_fusermount3_mounts_as_root_does(
    source_dir: Path, mountpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The way of users other than root, with a comma and a backslash in the source's path."""
    odd = source_dir.rename(source_dir.with_name("a, b\\c"))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with Session(plan_of(odd), str(mountpoint)):
        assert (mountpoint / "model.bin").read_bytes() == expected(odd / "model.bin")
        mount = mounted_at(str(mountpoint))
        assert mount is not None
        assert (mount.kind, mount.source) == ("fuse.remapfs", str(odd))
    assert mounted_at(str(mountpoint)) is None


def test_two_mounts_of_one_source_are_independent(
    source_dir: Path, serving: Callable[[Path], AbstractContextManager[Served]]
) -> None:
    """Ending one leaves the other."""
    with serving(source_dir) as first, serving(source_dir) as second:
        unmount(str(first.path))
        assert (second.path / "model.bin").read_bytes() == expected(source_dir / "model.bin")
