"""The process that answers for a mount: it reads the shared counters, and nothing that could make it wait."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import signal
from time import monotonic
from typing import TYPE_CHECKING, Final, NoReturn

from remapfs.observe.answering import answer
from remapfs.observe.place import listen
from remapfs.present.options import LOGGER
from remapfs.present.supervise.signals import blocked

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from remapfs.observe.answering import Asked

_SET_PDEATHSIG, _SET_NAME = 1, 15  # include/uapi/linux/prctl.h
_LIBC: Final = ctypes.CDLL(None, use_errno=True)
# One that fails at once, again and again, is not needed that badly.
_HEALTHY_SECONDS: Final = 1.0
_MOST_FAILURES: Final = 5
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


class Reporter:
    """Answers on the mount's socket from a process of its own, which is started again when it dies.

    The supervisor makes it and waits for `lifeline`, below 0 if there is none. A mount never fails for it.
    """

    def __init__(self, device: str, asked: Asked) -> None:
        self._asked = asked
        self._socket: socket.socket | None = None
        self._path = ""
        self.pid, self.lifeline = 0, -1
        self._failures, self._began = 0, 0.0
        if not device:
            return
        try:
            made = listen(device)
        except OSError as error:
            LOGGER.warning("remapfs status will not be answered: %s", error)
            return
        if made:
            self._socket, self._path = made
        else:
            LOGGER.info("remapfs status will not be answered: XDG_RUNTIME_DIR is not set")

    def start(self, leave: Callable[[], None]) -> None:
        """Fork it; this process must have one thread only. The child calls `leave` to let go of the mount."""
        if self._socket is None and self._asked.metrics is None:
            return
        reading, writing = os.pipe2(os.O_CLOEXEC)
        parent = os.getpid()
        with blocked(_SIGNALS):
            pid = os.fork()
            if not pid:
                os.close(reading)
                _live_and_die(self._asked, self._socket, parent, leave)
        os.close(writing)
        self.pid, self.lifeline, self._began = pid, reading, monotonic()

    def restart(self, leave: Callable[[], None]) -> None:
        """Start it again after its death, unless that would be in vain."""
        self._reap()
        self._failures = 0 if monotonic() - self._began >= _HEALTHY_SECONDS else self._failures + 1
        if self._failures < _MOST_FAILURES:
            self.start(leave)
        else:
            LOGGER.warning("the status process dies again and again: remapfs status will not be answered")

    def release(self) -> None:
        """Close what only the reporter answers on; in a forked child."""
        for each in (self._socket, self._asked.metrics):
            if each is not None:
                each.close()
        if self.lifeline >= 0:
            os.close(self.lifeline)

    def stop(self) -> None:
        """End it and take its socket away."""
        if self.lifeline >= 0:
            os.kill(self.pid, signal.SIGKILL)
            self._reap()
        if self._path:
            with contextlib.suppress(OSError):
                os.unlink(self._path)
        self.release()

    def _reap(self) -> None:
        os.close(self.lifeline)
        os.waitpid(self.pid, 0)
        self.pid, self.lifeline = 0, -1


def _live_and_die(
    asked: Asked, listening: socket.socket | None, parent: int, leave: Callable[[], None]
) -> NoReturn:
    try:
        gc.freeze()
        _LIBC.prctl(_SET_NAME, b"remapfs-status")
        # It ends with its supervisor, and only then.
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        _LIBC.prctl(_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() == parent:
            leave()
            signal.pthread_sigmask(signal.SIG_SETMASK, ())
            answer(asked, listening, {"supervisor": parent, "status": os.getpid()})
    except Exception:  # noqa: BLE001 - whatever it is, the supervisor starts another
        LOGGER.exception("the status process failed")
    finally:
        # Not sys.exit: the parent's clean-up is not the child's to run.
        os._exit(1)
