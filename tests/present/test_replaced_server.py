"""A server that dies is replaced, and its readers notice no more than a wait."""

from __future__ import annotations

import hashlib
import mmap
import os
import signal
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from present.plans import expected
from remapfs.present.supervise.restarts import Restarts

if TYPE_CHECKING:
    from collections.abc import Callable

    from present.conftest import Served

_KILLS = 8
_STEP = 1 << 20


def _buffered(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        return b"".join(iter(lambda: file.read(_STEP), b""))


def _direct(path: str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECT)
    buffer = mmap.mmap(-1, _STEP)
    data = b""
    try:
        while got := os.preadv(descriptor, [buffer], len(data)):
            data += buffer[:got]
    finally:
        os.close(descriptor)
    return data


def _mapped(path: str) -> bytes:
    with open(path, "rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        with mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as view:
            return bytes(view)


def _walk(path: str) -> bytes:
    """List and stat everything, and read nothing but what it says of the file."""
    folder = os.path.dirname(path)
    names = sorted(name for _, folders, files in os.walk(folder) for name in (*folders, *files))
    assert os.path.basename(path) in names
    return os.stat(path).st_size.to_bytes(8, "little")


WAYS: list[Callable[[str], bytes]] = [_buffered, _buffered, _direct, _direct, _mapped, _mapped, _walk, _walk]


def test_readers_of_every_kind_see_right_bytes_and_no_error_while_servers_are_killed(served: Served) -> None:
    """Eight readers at once, whole files, and SIGKILL again and again."""
    source = expected(served.source / "model.bin")
    wanted: dict[Callable[[str], bytes], bytes] = dict.fromkeys(WAYS, hashlib.sha256(source).digest())
    wanted[_walk] = hashlib.sha256(len(source).to_bytes(8, "little")).digest()
    path = str(served.path / "model.bin")
    over = threading.Event()
    found: dict[int, list[object]] = {number: [] for number in range(len(WAYS))}

    def read(number: int) -> None:
        way = WAYS[number]
        while not over.is_set():
            try:
                found[number].append(hashlib.sha256(way(path)).digest() == wanted[way])
            except OSError as error:
                found[number].append(error)

    readers = [threading.Thread(target=read, args=(number,)) for number in found]
    for reader in readers:
        reader.start()
    killed = set()
    for _ in range(_KILLS):
        time.sleep(0.3)
        server = served.server()
        killed.add(server)
        os.kill(server, signal.SIGKILL)
    time.sleep(0.5)
    over.set()
    for reader in readers:
        reader.join(timeout=20)
    assert not any(reader.is_alive() for reader in readers)
    assert len(killed) == _KILLS
    assert all(results and all(result is True for result in results) for results in found.values()), found


def test_a_stopped_server_makes_readers_wait_and_nothing_else(served: Served) -> None:
    """SIGSTOP, and a while later SIGCONT: the read ends, with the right bytes."""
    server = served.server()
    os.kill(server, signal.SIGSTOP)
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.append(_direct(str(served.path / "model.bin"))))
    try:
        reader.start()
        reader.join(timeout=1)
        assert reader.is_alive()
    finally:
        os.kill(server, signal.SIGCONT)
    reader.join(timeout=20)
    assert got == [expected(served.source / "model.bin")]


def test_a_server_whose_supervisor_is_killed_goes_on_alone(served: Served) -> None:
    """And ends when the mount does."""
    server = served.server()
    served.process.kill()
    served.process.wait(timeout=20)
    assert _buffered(str(served.path / "model.bin")) == expected(served.source / "model.bin")
    os.kill(server, signal.SIGTERM)
    _, log = served.process.communicate(timeout=20)
    assert "serving on alone" in log
    assert not served.path.is_mount()


def test_what_follows_a_death_is_said_in_one_line(served: Served) -> None:
    """With the reason, for whoever reads the log in the morning."""
    os.kill(served.server(), signal.SIGKILL)
    os.statvfs(served.path)  # which only a server can answer
    served.process.terminate()
    code, log = served.end()
    assert code == 0
    lines = [line for line in log.splitlines() if "takes over" in line]
    assert lines == [f"WARNING {served.path}: the server was killed by SIGKILL; another one takes over"], log


def test_the_mount_is_let_go_if_every_server_dies_at_once(served: Served) -> None:
    """Readers are told instead of waiting for ever, and nothing stays mounted."""
    end = time.monotonic() + 60
    while served.process.poll() is None and time.monotonic() < end:
        children = Path(f"/proc/{served.process.pid}/task/{served.process.pid}/children")
        try:
            for pid in children.read_text().split():
                os.kill(int(pid), signal.SIGKILL)
        except (FileNotFoundError, ProcessLookupError):
            continue
        time.sleep(0.002)
    assert served.process.returncode == 1
    assert str(served.path) not in Path("/proc/self/mountinfo").read_text()


@pytest.mark.parametrize(
    ("lives", "exhausted"),
    [([0.0] * 9, False), ([0.0] * 10, True), ([0.0] * 9 + [5.0] + [0.0] * 9, False), ([1.0] * 100, False)],
    ids=["nine in a row", "ten in a row", "one that worked between", "killed again and again"],
)
def test_only_deaths_in_a_row_count(lives: list[float], *, exhausted: bool) -> None:
    """A server that served for a while did work, whatever killed it."""
    restarts = Restarts()
    for life in lives:
        restarts = restarts.after(life)
    assert restarts.exhausted is exhausted
