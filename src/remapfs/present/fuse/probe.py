"""A look at a mount from outside: only what another process has read is announced."""

from __future__ import annotations

import ctypes
import gc
import os
import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NoReturn

from remapfs.present.supervise.signals import blocked

if TYPE_CHECKING:
    from collections.abc import Callable

_SET_PDEATHSIG, _SET_NAME = 1, 15  # include/uapi/linux/prctl.h
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
_LIBC: Final = ctypes.CDLL(None, use_errno=True)
_MESSAGE: Final = 1024
_TAIL: Final = 8


@dataclass(frozen=True, slots=True)
class Probe:
    """A running look: `lifeline` has something to read when it is over."""

    pid: int
    lifeline: int

    def end(self) -> str:
        """Wait for its end, and say why the mount could not be read, or nothing."""
        said = os.read(self.lifeline, _MESSAGE)
        self._reap()
        return said.decode(errors="replace") or "the reader died"

    def stop(self) -> None:
        """End it before it is over."""
        os.kill(self.pid, signal.SIGKILL)
        self._reap()

    def _reap(self) -> None:
        os.close(self.lifeline)
        os.waitpid(self.pid, 0)


DONE: Final = "ok"
"""What `end` says when everything could be read."""


def start(path: str, leave: Callable[[], None]) -> Probe:
    """Fork a process that reads the mount at `path`; this process must have one thread only.

    The child calls `leave` to let go of what keeps the mount alive.
    """
    reading, writing = os.pipe2(os.O_CLOEXEC)
    with blocked(_SIGNALS):
        pid = os.fork()
        if not pid:
            os.close(reading)
            _live_and_die(path, leave, writing)
    os.close(writing)
    return Probe(pid, reading)


def _live_and_die(path: str, leave: Callable[[], None], writing: int) -> NoReturn:
    try:
        gc.freeze()
        _LIBC.prctl(_SET_NAME, b"remapfs-probe")
        _LIBC.prctl(_SET_PDEATHSIG, signal.SIGKILL)
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        leave()
        os.write(writing, look(path).encode()[:_MESSAGE])
    finally:
        # Not sys.exit: the parent's clean-up is not the child's to run.
        os._exit(0)


def look(path: str) -> str:
    """List the mount, and read both ends of its first file; say `DONE`, or what failed."""
    name = path
    try:
        for entry in sorted(os.scandir(path), key=lambda entry: entry.name):
            if not entry.is_file(follow_symlinks=False):
                continue
            name = entry.path
            descriptor = os.open(name, os.O_RDONLY | os.O_CLOEXEC)
            try:
                size = os.fstat(descriptor).st_size
                os.pread(descriptor, _TAIL, 0)
                os.pread(descriptor, _TAIL, max(size - _TAIL, 0))
            finally:
                os.close(descriptor)
            break
    except OSError as error:
        return f"{name}: {error.strerror}"
    return DONE
