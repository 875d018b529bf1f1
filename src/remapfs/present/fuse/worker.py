"""One server of a live mount: a child of the supervisor that answers requests until the mount or it ends."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import gc
import os
import signal
import struct
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Final, NoReturn

from remapfs.observe.events import event
from remapfs.present import mountpoint as mountpoints
from remapfs.present.fuse.record import SERVER_NAME, hold, holder
from remapfs.present.fuse.threads import ServingThreads, resend
from remapfs.present.options import LOGGER
from remapfs.present.supervise.signals import blocked

if TYPE_CHECKING:
    from remapfs.observe.reporter import Reporter
    from remapfs.present.fuse.live import LiveMount
    from remapfs.present.supervise.signals import SignalQueue

ENDING: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
LEAVING: Final = signal.SIGUSR1
_ORPHANED: Final = signal.SIGUSR2
_MOUNT_ENDED: Final = 0
_FAILED: Final = 1
_BEAT_SECONDS: Final = 1.0
_SET_PDEATHSIG, _SET_NAME = 1, 15  # include/uapi/linux/prctl.h
_CLONE: Final = 0x8004E500  # FUSE_DEV_IOC_CLONE of include/uapi/linux/fuse.h
_LIBC: Final = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class Generation:
    """What one server is told: `resume` if another served before, `clone` to read from its own descriptor.

    `record` is a file that the server locks as long as it lives. Without its supervisor it serves on, until
    its successor in another service start ends it and takes the lock.
    """

    live: LiveMount
    resume: bool
    clone: bool
    record: int | None
    reporter: Reporter


@dataclass(frozen=True, slots=True)
class Worker:
    """A running server: `lifeline` gives one byte when it serves, and its end when it is dead."""

    pid: int
    lifeline: int

    def reap(self) -> int:
        """Wait for its end, and return the exit code, or the signal's number below 0."""
        os.close(self.lifeline)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def start(generation: Generation, signals: SignalQueue) -> Worker:
    """Fork a server.

    This process must have one thread only. The child shares the plan and the open sources with it, so every
    generation shows the same.
    """
    reading, writing = os.pipe2(os.O_CLOEXEC)
    parent = os.getpid()
    # A signal that is meant for the child must not run the parent's handlers in it.
    with blocked((*ENDING, LEAVING, _ORPHANED)):
        pid = os.fork()
        if not pid:
            os.close(reading)
            signals.leave()
            _live_and_die(generation, parent, writing)
    os.close(writing)
    return Worker(pid, reading)


def _live_and_die(generation: Generation, parent: int, lifeline: int) -> NoReturn:
    code = _FAILED
    try:
        code = _run(generation, parent, lifeline)
    except Exception:  # noqa: BLE001 - whatever it is, the supervisor starts another
        LOGGER.exception("the server failed")
    finally:
        # Not sys.exit: the parent's clean-up is not the child's to run.
        os._exit(code)


def _run(generation: Generation, parent: int, lifeline: int) -> int:
    # A collection would write to every object that came with the fork, and so copy the pages that are shared.
    gc.freeze()
    events: SimpleQueue[signal.Signals | OSError | None] = SimpleQueue()
    _LIBC.prctl(_SET_NAME, SERVER_NAME)
    # A queue's put may interrupt its own get, so a handler can use it.
    for number in (*ENDING, _ORPHANED):
        signal.signal(number, lambda n, _: events.put(signal.Signals(n)))
    signal.signal(LEAVING, signal.SIG_IGN)
    _LIBC.prctl(_SET_PDEATHSIG, _ORPHANED)
    if os.getppid() != parent:
        os.kill(os.getpid(), _ORPHANED)
    live = generation.live
    # Who asks for a mount that lost its supervisor must find nobody listening.
    generation.reporter.release()
    if generation.record is not None:
        _replace_predecessor(generation.record)
    device = _clone_of(live.device) if generation.clone else live.device
    threads = ServingThreads(device, live.server, live.board, events.put)
    if generation.resume and not generation.clone:
        resend(device)
    threads.start()
    # Only now, so that the threads have all signals blocked: one that the kernel gives to a thread does not
    # wake this one.
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    live.board.beat()
    with contextlib.suppress(BrokenPipeError):
        os.write(lifeline, b"+")
    try:
        return _attend(live, events, parent)
    finally:
        live.failures.flush()


def _attend(live: LiveMount, events: SimpleQueue[signal.Signals | OSError | None], parent: int) -> int:
    """Show life until the mount ends or a signal ends it; give the exit code."""
    while True:
        live.board.beat()
        live.failures.tick()
        try:
            happened = events.get(timeout=_BEAT_SECONDS)
        except Empty:
            continue
        match happened:
            case None:
                return _MOUNT_ENDED
            case OSError():
                return _FAILED
            case _ if os.getppid() == parent:
                # Sent to the whole process group or cgroup: the supervisor acts on it.
                continue
            case signal.Signals.SIGUSR2:
                LOGGER.warning(
                    "%s: the supervisor is gone; serving on alone",
                    live.path,
                    extra=event("alone", mountpoint=live.path),
                )
            case number:
                LOGGER.info(
                    "%s: stopping on %s",
                    live.path,
                    number.name,
                    extra=event("ended", mountpoint=live.path, why=f"stopping on {number.name}"),
                )
                live.unmount()
                return _MOUNT_ENDED


def _replace_predecessor(record: int) -> None:
    """End the server that still holds the record, if there is one, and hold it until this process ends.

    What the predecessor had taken must not be handed out again while it lives.
    """
    own = os.open(f"/proc/self/fd/{record}", os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.flock(own, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        predecessor = holder(record)
        if predecessor:
            os.kill(predecessor, signal.SIGKILL)
        fcntl.flock(own, fcntl.LOCK_EX)
    hold(record)


def _clone_of(device: int) -> int:
    """Open the connection of `device` once more; requests read there end with it, with ECONNABORTED."""
    clone = mountpoints.open_device()
    fcntl.ioctl(clone, _CLONE, struct.pack("=I", device))
    return clone
