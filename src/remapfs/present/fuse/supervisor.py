"""The default way to serve: a process that holds the mount, and a child that serves it and may die."""

from __future__ import annotations

import gc
import os
import signal
from time import monotonic
from typing import TYPE_CHECKING, Final

from remapfs.errors import RuntimeFailure
from remapfs.present.fuse.live import LiveMount
from remapfs.present.fuse.threads import resend
from remapfs.present.fuse.worker import ENDING, Generation, Worker, start
from remapfs.present.options import LOGGER
from remapfs.present.supervise.restarts import Restarts
from remapfs.present.supervise.signals import SignalQueue

if TYPE_CHECKING:
    from collections.abc import Callable

    from remapfs.plan.model import Plan
    from remapfs.present.options import MountOptions

_JOIN_SECONDS: Final = 2.0


def serve(plan: Plan, mountpoint: str, options: MountOptions, on_ready: Callable[[], None]) -> None:
    """Mount `plan` and serve it until it is unmounted or SIGTERM, SIGINT or SIGHUP asks to stop.

    A server that dies is replaced by another, and its readers notice no more than a wait. Call it in the
    main thread of a process without other threads. `on_ready` is called once, when the mount answers. Raises
    RemapError before anything is mounted if it cannot be, and RuntimeFailure, with nothing mounted any more,
    if one server after the other dies at once.
    """
    # From before the mount on, so that no signal can end the process with the mount left behind.
    with SignalQueue(ENDING) as signals:
        supervisor = _Supervisor(LiveMount.make(plan, mountpoint, options), signals, on_ready)
        try:
            reason = supervisor.run()
            LOGGER.info("%s: %s", mountpoint, f"stopping on {reason.name}" if reason else "unmounted")
        finally:
            supervisor.end()


class _Supervisor:
    """It never touches the mount: it would wait for a server that only it can start."""

    def __init__(self, live: LiveMount, signals: SignalQueue, on_ready: Callable[[], None]) -> None:
        self._live = live
        self._signals = signals
        self._on_ready: Callable[[], None] | None = on_ready
        self._worker: Worker | None = None

    def run(self) -> signal.Signals | None:
        """Start one server after the other; give the signal that asks to stop, or None after an unmount."""
        # The kernel keeps what a dead server took if its descriptor is held, and RESEND hands it out again.
        # Where it cannot, each server reads from a descriptor that dies with it: what it took then fails,
        # and the kernel repeats by itself what it reads into its cache.
        clone = not resend(self._live.device)
        # A collection in a child would write to every object, and so copy the pages they share.
        gc.freeze()
        restarts, resume = Restarts(), False
        while True:
            self._worker = start(Generation(self._live, resume, clone), self._signals)
            served = self._watch(self._worker)
            if isinstance(served, signal.Signals):
                return served
            code = self._worker.reap()
            self._worker = None
            if code == 0:
                return None
            how = _how(code)
            restarts = restarts.after(served)
            if restarts.exhausted:
                raise RuntimeFailure(
                    f"{self._live.path}: {restarts.failures} servers in a row died at once, the last {how}",
                    "the log says what came before; the kernel's own log (dmesg) names the OOM killer",
                )
            LOGGER.warning("%s: the server %s; another one takes over", self._live.path, how)
            number = self._pause(restarts.delay)
            if number:
                return number
            resume = True

    def end(self) -> None:
        """End the mount and the server, whatever state they are in."""
        gc.unfreeze()
        if self._worker is None:
            # Nobody serves: readers that wait must get an error before the unmount could wait for them.
            self._live.let_go()
            self._live.unmount()
        else:
            self._live.unmount()
            self._end(self._worker)
        self._live.close()

    def _watch(self, worker: Worker) -> signal.Signals | float:
        """Wait for a signal or for the server's death; give the seconds for which it served."""
        begin: float | None = None
        while True:
            told = self._signals.wait(worker.lifeline, None)
            for number in self._signals.take():
                return number
            if not told:
                continue
            if not os.read(worker.lifeline, 1):
                return 0.0 if begin is None else monotonic() - begin
            begin = monotonic()
            if self._on_ready:
                self._on_ready()
                self._on_ready = None

    def _pause(self, seconds: float) -> signal.Signals | None:
        end = monotonic() + seconds
        while True:
            for number in self._signals.take():
                return number
            left = end - monotonic()
            if left <= 0:
                return None
            self._signals.wait(-1, left)

    def _end(self, worker: Worker) -> None:
        """Wait for a server whose mount has ended; one that cannot end, because it is stopped, is killed."""
        for last in (False, True):
            end = monotonic() + _JOIN_SECONDS
            while (left := end - monotonic()) > 0:
                if self._signals.wait(worker.lifeline, left) and not os.read(worker.lifeline, 1):
                    worker.reap()
                    return
                self._signals.take()
            if not last:
                os.kill(worker.pid, signal.SIGKILL)


def _how(code: int) -> str:
    return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
