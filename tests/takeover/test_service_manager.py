"""A mount that outlives its service's restarts, because a service manager keeps its descriptor."""

from __future__ import annotations

import errno
import os
import signal
from typing import TYPE_CHECKING

import pytest

from present.plans import expected
from remapfs.present.mountpoint import mounted_at, release
from takeover.conftest import PATIENCE, go, reader, running

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from takeover.conftest import Manager, Running

KEPT = {"remapfs", "remapfs-record"}


def test_the_manager_is_told_and_keeps_the_mount(source: Path, mountpoint: Path, manager: Manager) -> None:
    """READY once the mount answers; the mount and its record are kept, and forgotten on a stop."""
    with running(source, mountpoint, environment=manager.environment()) as served:
        manager.listen("READY=1")
        assert set(manager.kept) == KEPT
        assert manager.told.count("FDPOLL=0") == 2
        assert manager.told[-1] == f"STATUS={mountpoint}: mounted"
        served.kill_server()
        manager.listen(f"STATUS={mountpoint}: the last server was killed by SIGKILL")
        served.process.terminate()
        manager.listen("FDNAME=remapfs-record")
        assert served.end()[0] == 0
    assert "STOPPING=1" in manager.told
    assert manager.kept == {}


def test_without_room_nothing_is_kept(source: Path, mountpoint: Path, manager: Manager) -> None:
    """As with a unit that does not ask for it; SIGUSR1 then stops like SIGTERM."""
    with running(source, mountpoint, environment=manager.environment(room=1)) as served:
        manager.listen("READY=1")
        assert manager.kept == {}
        served.process.send_signal(signal.SIGUSR1)
        code, log = served.end()
    assert code == 0
    assert "stopping on SIGUSR1" in log


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGUSR1])
def test_the_next_start_continues_the_live_mount(
    source: Path, mountpoint: Path, manager: Manager, how: signal.Signals
) -> None:
    """After a crash, and after SIGUSR1, which asks for it: a read that was under way only waits."""
    with (
        running(source, mountpoint, ["slow"], manager.environment()) as first,
        reader(mountpoint / "model.bin", 1 << 20, "direct") as waiting,
    ):
        manager.listen("READY=1")
        mount = mounted_at(str(mountpoint))
        go(waiting)
        first.process.send_signal(how)
        code, _ = first.end()
        assert code == (0 if how is signal.SIGUSR1 else -how)
        assert waiting.poll() is None
        with running(source, mountpoint, (), manager.environment(), manager.kept) as second:
            got, _ = waiting.communicate(timeout=PATIENCE)
            assert bytes.fromhex(got) == expected(source / "model.bin")[1 << 20 :][:4096]
            assert mounted_at(str(mountpoint)) == mount
            assert second.read() == expected(source / "model.bin")
            assert set(manager.kept) == KEPT
            second.kill_server()
            assert second.read() == expected(source / "model.bin")
            second.process.terminate()
            code, log = second.end()
    assert code == 0
    assert "taking over the live mount" in log


def _changed_bytes(source: Path, _manager: Manager) -> None:
    (source / "model.bin").write_bytes(b"another file with other bytes")


def _changed_mode(source: Path, _manager: Manager) -> None:
    (source / "model.bin").chmod(0o400)


def _no_record(_source: Path, manager: Manager) -> None:
    os.ftruncate(manager.kept["remapfs-record"], 5)


@pytest.mark.parametrize("change", [_changed_bytes, _changed_mode, _no_record])
def test_another_plan_is_mounted_anew(
    source: Path, mountpoint: Path, manager: Manager, change: Callable[[Path, Manager], None]
) -> None:
    """Never a mix: who has a file open is cut off, who opens it now sees the new one."""
    with (
        running(source, mountpoint, (), manager.environment()) as first,
        reader(mountpoint / "model.bin", 4 << 20) as cut_off,
    ):
        manager.listen("READY=1")
        mount = mounted_at(str(mountpoint))
        first.process.kill()
        first.process.wait()
        change(source, manager)
        kept = dict(manager.kept)
        with running(source, mountpoint, (), manager.environment(), kept) as second:
            manager.listen("READY=1")
            assert second.read() == expected(source / "model.bin")
            now = mounted_at(str(mountpoint))
            assert now is not None
            assert now != mount
            got, _ = cut_off.communicate("\n", timeout=PATIENCE)
            assert int(got) in {errno.ENOTCONN, errno.ECONNABORTED}
            assert "not what is mounted now" in second.log.read_text()
            assert set(manager.kept) == KEPT


def test_a_mount_that_was_ended_meanwhile_is_made_anew(
    source: Path, mountpoint: Path, manager: Manager
) -> None:
    """What is kept belongs to no mount any more."""
    with running(source, mountpoint, (), manager.environment()) as first:
        manager.listen("READY=1")
        first.process.send_signal(signal.SIGUSR1)
        first.end()
        unmount_dead(mountpoint)
        with running(source, mountpoint, (), manager.environment(), dict(manager.kept)) as second:
            manager.listen("READY=1")
            assert second.read() == expected(source / "model.bin")


@pytest.mark.skipif(os.geteuid() != 0, reason="fusermount3 asks the mount before it unmounts it")
def test_a_dead_mount_of_the_service_is_cleared(source: Path, mountpoint: Path, manager: Manager) -> None:
    """Left by a kill when nothing was kept; by hand it would be refused with the command that clears it."""
    with running(source, mountpoint) as first:
        kill_all(first)
        with running(source, mountpoint, (), manager.environment()) as second:
            assert second.read() == expected(source / "model.bin")
            assert "not what is mounted now" in second.log.read_text()


def test_signs_of_life_are_given(source: Path, mountpoint: Path, manager: Manager) -> None:
    """At least every half of the time that the manager waits."""
    environment = manager.environment() | {"WATCHDOG_USEC": "100000"}
    with running(source, mountpoint, (), environment):
        for _ in range(3):
            manager.listen("WATCHDOG=1")


def unmount_dead(mountpoint: Path) -> None:
    """Unmount what nobody serves, without asking it for anything."""
    release(str(mountpoint), lazy=True)


def kill_all(served: Running) -> None:
    """Kill supervisor and server, and wait until both are gone."""
    server = served.server()
    served.process.kill()
    os.kill(server, signal.SIGKILL)
    served.process.wait()
    assert served.process.stdout is not None
    served.process.stdout.read()
