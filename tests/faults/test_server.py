"""A server that is killed by the kernel, stopped, or told a wrong time."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from faults.conftest import FIRST, PATIENCE, READING, SECOND, mounting, read, umount
from faults.memory import limited
from mounting import remapfs
from remapfs.present.mountpoint import mounted_at

if TYPE_CHECKING:
    from faults.conftest import Checkpoint

# 30 s were run by hand; what happens does not depend on it.
STOPPED_SECONDS = float(os.environ.get("REMAPFS_STOPPED_SECONDS", "1"))
_FAKETIME = Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1")

pytestmark = pytest.mark.usefixtures("fuse")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_a_server_that_the_kernel_kills_for_memory_is_replaced(checkpoint: Checkpoint) -> None:
    """Its readers only wait, and the log names the signal."""
    expected = checkpoint.expected()
    with mounting(checkpoint) as mount:
        first = mount.server()
        with limited(first, 64 << 10):
            # Four at once, so that threads need buffers that they have not had yet.
            found: list[str] = []
            readers = [
                threading.Thread(target=lambda name=name, way=way: found.append(mount.read(name, way)))
                for name in (FIRST, SECOND)
                for way in ("read", "direct")
            ]
            for reader in readers:
                reader.start()
            for reader in readers:
                reader.join(PATIENCE)
        assert sorted(found) == sorted([expected[FIRST], expected[SECOND]] * 2)
        assert mount.server() != first
        assert mount.log.count("the server was killed by SIGKILL; another one takes over") == 1


def test_a_stopped_mount_makes_readers_wait_and_nothing_fails(checkpoint: Checkpoint) -> None:
    """Supervisor and server, as in a frozen container: read, mmap and O_DIRECT go on where they were."""
    expected = checkpoint.expected()
    with mounting(checkpoint) as mount:
        stopped = (mount.process.pid, mount.server())
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        ways = ("read", "mmap", "direct")
        readers = [
            subprocess.Popen(
                [sys.executable, "-I", READING, way, mount.path / FIRST],
                stdout=subprocess.PIPE,
                text=True,
            )
            for way in ways
        ]
        time.sleep(STOPPED_SECONDS)
        assert all(reader.poll() is None for reader in readers)
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)
        assert [reader.communicate(timeout=PATIENCE)[0].strip() for reader in readers] == [
            expected[FIRST]
        ] * 3


@pytest.mark.skipif(os.geteuid() != 0, reason="fusermount3 asks the mount before it unmounts it")
def test_a_stopped_mount_tells_its_state_and_can_be_unmounted(checkpoint: Checkpoint) -> None:
    """`remapfs status` and `umount` ask nobody who is stopped; those then run again, and end with code 0."""
    with mounting(checkpoint) as mount:
        stopped = (mount.process.pid, mount.server())
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        told = remapfs("status", mount.path, "--json")
        assert (told.returncode, json.loads(told.stdout)["state"]) == (1, "stopped")
        done = umount(mount.path)
        assert done.returncode == 0, done.stderr
        assert mounted_at(str(mount.path)) is None
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)
        assert mount.process.wait(PATIENCE) == 0


def test_a_clock_that_jumps_changes_nothing(checkpoint: Checkpoint, tmp_path: Path) -> None:
    """Years forth and back, as on a host that finds its time server: every byte is right, nothing ends.

    Only the wall clock jumps, as on a host: the monotonic one, which intervals are measured by, never does.
    """
    if not _FAKETIME.exists():
        pytest.skip(f"faketime is not installed (no {_FAKETIME})")
    clock = tmp_path / "clock"
    clock.write_text("+0")
    environment = {
        "LD_PRELOAD": str(_FAKETIME),
        "FAKETIME_TIMESTAMP_FILE": str(clock),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "NO_FAKE_STAT": "1",
    }
    expected = checkpoint.expected()
    with mounting(checkpoint, environment=environment) as mount:
        server = mount.server()
        for jump in ("+20y", "-20y", "+0"):
            clock.write_text(jump)
            assert mount.read(FIRST, "direct") == expected[FIRST]
            assert mount.read(SECOND, "mmap") == expected[SECOND]
            time.sleep(0.2)
        assert mount.server() == server
        assert mount.process.poll() is None
        # A killed server is replaced at once, for its life is measured by the other clock.
        clock.write_text("-20y")
        os.kill(server, signal.SIGKILL)
        assert read(mount.path / FIRST, "direct") == expected[FIRST]
        assert mount.log.count("another one takes over") == 1


def test_the_clock_of_the_test_above_does_jump(tmp_path: Path) -> None:
    """Or it would prove nothing."""
    if not _FAKETIME.exists():
        pytest.skip(f"faketime is not installed (no {_FAKETIME})")
    clock = tmp_path / "clock"
    program = (
        "import sys, time; from pathlib import Path; "
        "a, m = time.time(), time.monotonic(); Path(sys.argv[1]).write_text('+20y'); "
        "print(int(time.time() - a) // 86400, int(time.monotonic() - m))"
    )
    clock.write_text("+0")
    run = subprocess.run(
        [sys.executable, "-c", program, clock],
        env={
            **os.environ,
            "LD_PRELOAD": str(_FAKETIME),
            "FAKETIME_TIMESTAMP_FILE": str(clock),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        },
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.split() == ["7300", "0"]


def test_containers_that_read_at_once_all_read_the_right_bytes(checkpoint: Checkpoint) -> None:
    """200 processes, half of them in mount namespaces of their own, each by pread, mmap and O_DIRECT."""
    expected = checkpoint.expected()
    with mounting(checkpoint) as mount:
        program = Path(__file__).with_name("containers.py")
        command = [sys.executable, "-I", str(program), str(mount.path), "200", f"{FIRST}={expected[FIRST]}"]
        run = subprocess.run(
            [*command, f"{SECOND}={expected[SECOND]}"],
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert run.returncode == 0, run.stdout + run.stderr
        assert run.stdout.split() == ["right", "200", "wrong", "0"]
        assert "ERROR" not in mount.log
        assert mount.process.poll() is None


def test_removal_of_the_mount_point_is_refused_while_mounted(checkpoint: Checkpoint) -> None:
    """So that clean-up scripts cannot take it away under its readers."""
    with mounting(checkpoint) as mount:
        with pytest.raises(OSError, match="busy"):
            mount.path.rmdir()
        with pytest.raises(OSError, match=os.strerror(30)):
            shutil.rmtree(mount.path)
