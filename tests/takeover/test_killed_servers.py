"""What readers and administrators see when processes of a mount are killed or stopped."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from present.plans import expected
from remapfs.present.mountpoint import mounted_at, unmount
from takeover.conftest import running, until

if TYPE_CHECKING:
    from takeover.conftest import Running

BENCH = Path(__file__).parents[2] / "bench" / "takeover.py"


def test_a_killed_server_is_replaced(served: Running) -> None:
    """The bytes are the same, the log has one line for each death, and the mount is the same mount."""
    mount = mounted_at(str(served.path))
    for _ in range(3):
        served.kill_server()
        assert served.read() == expected(served.source / "model.bin")
    assert mounted_at(str(served.path)) == mount
    served.process.terminate()
    code, log = served.end()
    assert code == 0
    assert log.count("the server was killed by SIGKILL; another one takes over") == 3


def test_a_read_that_a_killed_server_had_in_hand_is_answered(source: Path, mountpoint: Path) -> None:
    """Through the page cache and past it: the reader only waits."""
    with running(source, mountpoint, ["slow"]) as served:
        for flags in (0, os.O_DIRECT):
            descriptor = os.open(served.path / "model.bin", os.O_RDONLY | flags)
            got: list[bytes] = []
            reader = threading.Thread(
                target=lambda descriptor=descriptor, got=got: got.append(os.pread(descriptor, 4096, 1 << 20))
            )
            reader.start()
            time.sleep(0.2)
            served.kill_server()
            reader.join(30)
            os.close(descriptor)
            assert got == [expected(source / "model.bin")[1 << 20 :][:4096]]


@pytest.mark.skipif(not BENCH.exists(), reason="the installed package has no benchmarks")
@pytest.mark.skipif(os.geteuid() != 0, reason="the benchmark unmounts as root")
def test_readers_do_not_notice_kills(source: Path, tmp_path: Path) -> None:
    """Eight readers, by read, mmap, O_DIRECT and by name, hash whole files for five seconds of kills."""
    del source
    report = tmp_path / "report.json"
    command = [sys.executable, str(BENCH), "--seconds", "5", "--size", "16", "--json", str(report)]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert run.returncode == 0, run.stdout + run.stderr
    found = json.loads(report.read_text())
    assert found["kills"] > 1
    assert found["right"] >= 8
    assert (found["wrong"], found["errors"]) == (0, [])
    assert found["descriptors"][0] == found["descriptors"][1]


def test_without_resend_what_is_read_into_the_cache_survives(source: Path, mountpoint: Path) -> None:
    """On kernels before 6.9 buffered reads are repeated by the kernel, and nothing waits for ever."""
    with running(source, mountpoint, ["no-resend", "slow"]) as served:
        for flags, fails in ((0, False), (os.O_DIRECT, True)):
            descriptor = os.open(served.path / "model.bin", os.O_RDONLY | flags)
            got: list[bytes | OSError] = []

            def read(descriptor: int = descriptor, got: list[bytes | OSError] = got) -> None:
                try:
                    got.append(os.pread(descriptor, 4096, 1 << 20))
                except OSError as error:
                    got.append(error)

            reader = threading.Thread(target=read)
            reader.start()
            time.sleep(0.2)
            served.kill_server()
            reader.join(30)
            os.close(descriptor)
            (found,) = got
            if fails:
                assert isinstance(found, OSError)
                assert found.errno == errno.ECONNABORTED
            else:
                assert found == expected(source / "model.bin")[1 << 20 :][:4096]
        assert served.read() == expected(source / "model.bin")


def test_a_stopped_server_only_makes_readers_wait(served: Running) -> None:
    """As a debugger or a frozen container stops it."""
    server = served.server()
    os.kill(server, signal.SIGSTOP)
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.append(served.read()))
    reader.start()
    time.sleep(0.3)
    assert got == []
    os.kill(server, signal.SIGCONT)
    reader.join(30)
    assert got == [expected(served.source / "model.bin")]


@pytest.mark.skipif(os.geteuid() != 0, reason="fusermount3 asks the mount before it unmounts it")
def test_a_stopped_server_does_not_stop_an_unmount(served: Running) -> None:
    """SIGTERM ends everything, also a server that cannot end by itself."""
    os.kill(served.server(), signal.SIGSTOP)
    served.process.terminate()
    assert served.end()[0] == 0
    assert mounted_at(str(served.path)) is None


def test_without_its_supervisor_a_server_goes_on(served: Running) -> None:
    """With one line in the log; an unmount ends it."""
    served.process.kill()
    served.process.wait()
    assert served.read() == expected(served.source / "model.bin")
    unmount(str(served.path))
    until(lambda: "serving on alone" in served.log.read_text())


def test_a_signal_unmounts_where_there_is_no_supervisor(served: Running) -> None:
    """The server does it itself, and only then."""
    server = served.server()
    os.kill(server, signal.SIGTERM)
    assert served.read() == expected(served.source / "model.bin")
    assert served.server() == server
    served.process.kill()
    served.process.wait()
    os.kill(server, signal.SIGTERM)
    until(lambda: mounted_at(str(served.path)) is None)
    assert "stopping on SIGTERM" in served.log.read_text()


def test_when_both_are_killed_readers_are_told(served: Running) -> None:
    """ENOTCONN, and the mount can be cleared."""
    server = served.server()
    served.process.kill()
    served.process.wait()
    os.kill(server, signal.SIGKILL)

    def is_told() -> bool:
        try:
            os.statvfs(served.path)
        except OSError as error:
            return error.errno == errno.ENOTCONN
        return False

    until(is_told)
    unmount(str(served.path))


def test_servers_that_die_at_once_are_given_up(source: Path, mountpoint: Path) -> None:
    """After ten in a row nothing is mounted, exit code 1, and the log says how the last one ended."""
    with contextlib.suppress(AssertionError), running(source, mountpoint, ["dies"]):
        pytest.fail("it cannot have become ready")
    (log,) = mountpoint.parent.glob("log-*")
    text = log.read_text()
    assert text.count("the server ended with exit code 9; another one takes over") == 9
    assert "10 servers in a row died at once, the last ended with exit code 9" in text
    assert mounted_at(str(mountpoint)) is None


def test_readers_get_an_error_when_servers_are_given_up(served: Running) -> None:
    """They wait no longer than that."""
    failures: list[OSError] = []
    os.kill(served.server(), signal.SIGSTOP)

    def read() -> None:
        try:
            served.read()
        except OSError as error:
            failures.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    while served.process.poll() is None:
        children = Path(f"/proc/{served.process.pid}/task/{served.process.pid}/children").read_text()
        for pid in children.split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        time.sleep(0.002)
    reader.join(30)
    code, log = served.end()
    assert code == 1
    assert "servers in a row died at once, the last was killed by SIGKILL" in log
    # A kill may come a moment late, so that the read succeeds before the last server dies.
    assert all(error.errno in {errno.ENOTCONN, errno.ECONNABORTED, errno.EIO} for error in failures)
    assert mounted_at(str(served.path)) is None


def test_a_source_that_changes_is_refused_by_every_server(served: Running) -> None:
    """The next server has the identities that the first one had: never a mix of old and new bytes."""
    with (served.source / "model.bin").open("r+b") as stream:
        stream.seek(5 << 20)
        stream.write(b"changed")
    served.kill_server()
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        served.read()
    assert "changed since it was planned" in served.log.read_text()


def test_a_source_that_is_replaced_is_read_on_by_every_server(served: Running) -> None:
    """The supervisor holds the old file open, so that its bytes outlive a server."""
    content = expected(served.source / "model.bin")
    (served.source / "new").write_bytes(b"x" * len(content))
    (served.source / "new").rename(served.source / "model.bin")
    served.kill_server()
    assert served.read() == content
