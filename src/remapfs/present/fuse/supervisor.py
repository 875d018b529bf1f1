"""The default way to serve: a process that holds the mount, and a child that serves it and may die."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Final

from remapfs.errors import RuntimeFailure
from remapfs.observe.answering import Asked, about_plan, metrics_socket
from remapfs.observe.events import event
from remapfs.observe.report import how as describe
from remapfs.observe.reporter import Reporter
from remapfs.present.fuse import probe
from remapfs.present.fuse.live import LiveMount
from remapfs.present.fuse.successor import ROOM, forget, keep, succeed
from remapfs.present.fuse.threads import resend
from remapfs.present.fuse.worker import ENDING, LEAVING, Generation, Worker, start
from remapfs.present.options import LOGGER
from remapfs.present.supervise.restarts import Restarts
from remapfs.present.supervise.signals import SignalQueue
from remapfs.present.supervise.systemd import Manager

if TYPE_CHECKING:
    from collections.abc import Callable

    from remapfs.plan.model import Plan
    from remapfs.present.options import MountOptions

_JOIN_SECONDS: Final = 2.0


def serve(plan: Plan, mountpoint: str, options: MountOptions, on_ready: Callable[[], None]) -> None:
    """Mount `plan` and serve it until it is unmounted or SIGTERM, SIGINT or SIGHUP asks to stop.

    A server that dies is replaced by another, and its readers notice no more than a wait. A service manager
    that keeps descriptors (FDSTORE of at least 2) keeps the mount too: SIGUSR1 then ends the process but not
    the mount, which the service's next start continues. Call it in the main thread of a process without
    other threads. `on_ready` is called once, when the mount answers. Raises
    RemapError before anything is mounted if it cannot be, and RuntimeFailure, with nothing mounted any more,
    if one server after the other dies at once.
    """
    manager = Manager.take_from(os.environ)
    # From before the mount on, so that no signal can end the process with the mount left behind.
    with SignalQueue((*ENDING, LEAVING)) as signals, metrics_socket(options) as metrics:
        held = _hold(plan, mountpoint, options, manager)
        about = partial(about_plan, plan, held.live.path, held.live.identity, "fuse", metrics)
        asked = Asked(about, held.live.board, metrics)
        reporter = Reporter(held.live.identity, asked)
        supervisor = _Supervisor(held, reporter, signals, manager, on_ready)
        leaves = False
        try:
            reason = supervisor.run()
            leaves = reason is LEAVING and held.record is not None
            what = (
                "leaving it to the next start"
                if leaves
                else f"stopping on {reason.name}"
                if reason
                else "unmounted"
            )
            LOGGER.info("%s: %s", mountpoint, what, extra=event("ended", mountpoint=mountpoint, why=what))
        finally:
            if leaves:
                supervisor.leave()
            else:
                supervisor.end()


@dataclass(frozen=True, slots=True)
class _Held:
    """The mount; whether it was served before; and its record, if the service manager keeps it too."""

    live: LiveMount
    continued: bool
    record: int | None


def _hold(plan: Plan, mountpoint: str, options: MountOptions, manager: Manager) -> _Held:
    """Take over what an earlier start of the service left, or mount."""
    succeeded = succeed(plan, mountpoint, options, manager) if manager.address else None
    if succeeded:
        live, record = succeeded
        LOGGER.info(
            "%s: taking over the live mount", mountpoint, extra=event("taken-over", mountpoint=mountpoint)
        )
        return _Held(live, continued=True, record=record)
    live = LiveMount.make(plan, mountpoint, options)
    if manager.room < ROOM:
        return _Held(live, continued=False, record=None)
    try:
        return _Held(live, continued=False, record=keep(plan, live, manager))
    except BaseException:
        live.unmount()
        live.close()
        raise


class _Supervisor:
    """It never touches the mount: it would wait for a server that only it can start."""

    def __init__(
        self,
        held: _Held,
        reporter: Reporter,
        signals: SignalQueue,
        manager: Manager,
        on_ready: Callable[[], None],
    ) -> None:
        self._live = held.live
        self._held = held
        self._reporter = reporter
        self._signals = signals
        self._manager = manager
        self._alive = manager.watchdog / 2 if manager.watchdog else None
        self._on_ready: Callable[[], None] | None = on_ready
        self._worker: Worker | None = None
        self._probe: probe.Probe | None = None

    def run(self) -> signal.Signals | None:
        """Start one server after the other; give the signal that asks to stop, or None after an unmount."""
        # The kernel keeps what a dead server took if its descriptor is held, and RESEND hands it out again.
        # Where it cannot, each server reads from a descriptor that dies with it: what it took then fails,
        # and the kernel repeats by itself what it reads into its cache.
        clone = not resend(self._live.device)
        restarts, resume = Restarts(), self._held.continued
        while True:
            generation = Generation(self._live, resume, clone, self._held.record, self._reporter)
            self._worker = start(generation, self._signals)
            self._live.board.server_started(self._worker.pid)
            # Once, and again if it was given up before.
            if self._reporter.lifeline < 0:
                self._reporter.start(self._let_go)
            served = self._watch(self._worker)
            if isinstance(served, signal.Signals):
                return served
            code = self._worker.reap()
            self._worker = None
            self._live.board.server_ended(code)
            if code == 0:
                return None
            how = describe(code)
            restarts = restarts.after(served)
            if restarts.exhausted:
                raise RuntimeFailure(
                    f"{self._live.path}: {restarts.failures} servers in a row died at once, the last {how}",
                    "the log says what came before; the kernel's own log (dmesg) names the OOM killer",
                )
            LOGGER.warning(
                "%s: the server %s; another one takes over",
                self._live.path,
                how,
                extra=event("server-died", mountpoint=self._live.path, how=how, failures=restarts.failures),
            )
            self._manager.tell(f"STATUS={self._live.path}: the last server {how}")
            number = self._pause(restarts.delay)
            if number:
                return number
            resume = True

    def end(self) -> None:
        """End the mount and the server, whatever state they are in."""
        self._reporter.stop()
        self._stop_probe()
        self._manager.tell("STOPPING=1")
        if self._held.record is not None:
            forget(self._manager)
            os.close(self._held.record)
        if self._worker is None:
            # Nobody serves: readers that wait must get an error before the unmount could wait for them.
            self._live.let_go()
            self._live.unmount()
        else:
            self._live.unmount()
            self._end(self._worker)
        self._live.close()

    def leave(self) -> None:
        """End without the server, which serves on until the next start's replaces it.

        If the service manager ends it too, readers wait: it keeps the mount.
        """
        self._reporter.stop()
        self._stop_probe()
        self._manager.tell("STOPPING=1")
        if self._worker:
            os.close(self._worker.lifeline)
        self._live.close()

    def _watch(self, worker: Worker) -> signal.Signals | float:
        """Wait for a signal or for the server's death; give the seconds for which it served."""
        begin: float | None = None
        while True:
            looking = self._probe.lifeline if self._probe else -1
            told = self._signals.wait((worker.lifeline, self._reporter.lifeline, looking), self._alive)
            for number in self._signals.take():
                return number
            if self._alive:
                self._manager.tell("WATCHDOG=1")
            if self._reporter.lifeline in told:
                self._reporter.restart(self._let_go)
            if looking in told:
                self._announce()
            if worker.lifeline not in told:
                continue
            if not os.read(worker.lifeline, 1):
                return 0.0 if begin is None else monotonic() - begin
            begin = monotonic()
            if self._on_ready and self._probe is None:
                self._probe = probe.start(self._live.path, self._let_go)

    def _announce(self) -> None:
        """Say that the mount answers, now that another process has read it, or end it if none can."""
        looked, self._probe = self._probe, None
        said = looked.end() if looked else probe.DONE
        if said != probe.DONE:
            raise RuntimeFailure(f"the mount cannot be read: {said}", "the log says what failed below it")
        if self._on_ready:
            self._on_ready()
            self._on_ready = None
            self._manager.tell("READY=1", f"STATUS={self._live.path}: mounted")

    def _stop_probe(self) -> None:
        if self._probe:
            self._probe.stop()
            self._probe = None

    def _let_go(self) -> None:
        """Let go of all that keeps the mount alive; in a child that does not serve it."""
        self._signals.leave()
        self._live.close()
        for each in (self._held.record, self._worker.lifeline if self._worker else None):
            if each is not None:
                os.close(each)

    def _pause(self, seconds: float) -> signal.Signals | None:
        end = monotonic() + seconds
        while True:
            for number in self._signals.take():
                return number
            left = end - monotonic()
            if left <= 0:
                return None
            self._signals.wait((), left)

    def _end(self, worker: Worker) -> None:
        """Wait for a server whose mount has ended; one that cannot end, because it is stopped, is killed."""
        for last in (False, True):
            end = monotonic() + _JOIN_SECONDS
            while (left := end - monotonic()) > 0:
                if self._signals.wait((worker.lifeline,), left) and not os.read(worker.lifeline, 1):
                    worker.reap()
                    return
                self._signals.take()
            if not last:
                os.kill(worker.pid, signal.SIGKILL)
