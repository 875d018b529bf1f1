"""Mounts whose server is gone or stands still: nothing hangs."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from export.sources import RENAME, plan_of, write_source
from mounting import missing, mounted, remapfs
from remapfs.errors import RemapError, RuntimeFailure
from remapfs.verify import compare, verify_plan
from remapfs.verify.workers import SilentError, Workers

if TYPE_CHECKING:
    from collections.abc import Iterator

needs_fuse = pytest.mark.skipif(missing() is not None, reason=str(missing()))


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Write a source, and rules beside it."""
    (tmp_path / "rules.toml").write_text(RENAME)
    return write_source(tmp_path / "src")


def _servers(mountpoint: Path) -> list[int]:
    """Find the processes of one mount: what serves it and what watches over that."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:  # it has ended
            continue
        if b"mount" in words and os.fsencode(mountpoint) in words:
            found.append(int(path.parent.name))
    return found


@contextmanager
def _stopped(mountpoint: Path) -> Iterator[list[int]]:
    """Let the processes of a mount stand still."""
    servers = _servers(mountpoint)
    assert servers
    for server in servers:
        os.kill(server, signal.SIGSTOP)
    try:
        yield servers
    finally:
        for server in servers:
            os.kill(server, signal.SIGCONT)


@needs_fuse
def test_a_dead_mount(source: Path) -> None:
    """It is said with exit code 2, though the kernel still knows the root's attributes."""
    rules = ["--rules", str(source.parent / "rules.toml")]
    with mounted(source, rules) as mountpoint:
        with _stopped(mountpoint) as servers:
            for server in servers:
                os.kill(server, signal.SIGKILL)
        while _servers(mountpoint):
            time.sleep(0.02)
        run = remapfs("verify", mountpoint, source, *rules)
        assert (run.returncode, run.stdout) == (2, "")
        assert run.stderr == (
            f"error: the mount at {mountpoint} is dead: its server is gone\n"
            f"hint:  clear it (remapfs umount {mountpoint}) and mount again\n"
        )


@needs_fuse
def test_a_mount_whose_server_stands_still(source: Path) -> None:
    """After a while it is given up, and said which mount and which source were asked."""
    rules = ["--rules", str(source.parent / "rules.toml")]
    program = "import remapfs.cli, remapfs.verify.workers as w; w.PATIENCE = 1.0; remapfs.cli.main()"
    with mounted(source, rules) as mountpoint:
        with _stopped(mountpoint):
            run = subprocess.run(
                [sys.executable, "-c", program, "verify", str(mountpoint), str(source), *rules],
                capture_output=True,
                text=True,
                check=False,
                timeout=60,
            )
        assert (run.returncode, run.stdout) == (1, "")
        assert run.stderr.splitlines()[0] == (
            f"error: no answer for 1 second from {mountpoint}, or from its source {source}"
        )


@needs_fuse
def test_an_interrupt_ends_a_comparison_that_hangs(source: Path) -> None:
    """Though the thread that reads cannot be interrupted."""
    rules = ["--rules", str(source.parent / "rules.toml")]
    with mounted(source, rules) as mountpoint, _stopped(mountpoint):
        command = [sys.executable, "-m", "remapfs", "verify", str(mountpoint), str(source), *rules]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            until = time.monotonic() + 20  # some kernels do not say what a thread waits for
            while not _waits_for_fuse(process.pid) and time.monotonic() < until:
                assert process.poll() is None
                time.sleep(0.05)
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=60)
    assert process.returncode == 130


def _waits_for_fuse(process: int) -> bool:
    tasks = Path(f"/proc/{process}/task").glob("*/wchan")
    return any(task.read_text() == "request_wait_answer" for task in tasks)


@pytest.mark.parametrize(("gone", "kind"), [("at first", RemapError), ("midway", RuntimeFailure)])
def test_a_mount_that_dies(
    source: Path, monkeypatch: pytest.MonkeyPatch, gone: str, kind: type[RemapError]
) -> None:
    """Before anything is compared it is bad input; later it is a failure."""

    def dead(*_: object) -> bytes:
        raise OSError(107, os.strerror(107))

    plan = plan_of(source, "")
    monkeypatch.setattr(*((compare, "read_at") if gone == "midway" else (os, "scandir")), dead)
    with pytest.raises(RemapError, match="is dead: its server is gone") as caught:
        verify_plan(plan, str(source))
    assert type(caught.value) is kind


def test_workers_give_results_and_errors() -> None:
    """As a call would; an errno that says timeout is an error like others."""
    with Workers(2) as pool:
        assert pool.call(divmod, 7, 2) == (3, 1)
        with pytest.raises(ZeroDivisionError):
            pool.call(divmod, 1, 0)

        def fail() -> None:
            raise TimeoutError(110, "Connection timed out")

        with pytest.raises(TimeoutError):
            pool.call(fail)
        assert not pool.stuck


def test_workers_that_are_stuck_are_left_alone() -> None:
    """What was not begun is cancelled."""
    free = threading.Event()
    with Workers(1, patience=0.05) as pool:
        running = pool.submit(free.wait)
        later = pool.submit(free.wait)
        with pytest.raises(SilentError):
            pool.result(running)
        assert pool.stuck
        pool.give_up((running, later))
        assert later.cancelled()
        kept, other = os.pipe()
        pool.leave((kept,))
    os.fstat(kept)
    free.set()
    assert running.result(timeout=20)
    closed = select.poll()
    closed.register(other, 0)
    assert closed.poll(20_000) == [(other, select.POLLERR)]
    os.close(other)
