"""One mount: from /dev/fuse to the threads that serve it, and back to nothing."""

from __future__ import annotations

import errno
import os
import signal
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from time import monotonic
from typing import TYPE_CHECKING, Final, Self

from remapfs.present import mountpoint as mountpoints
from remapfs.present.fuse import wire
from remapfs.present.fuse.mounting import mount
from remapfs.present.fuse.server import ReplyBuffer, Server
from remapfs.present.options import LOGGER, MountOptions
from remapfs.present.sources import SourcePool, sources_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from remapfs.plan.model import Plan

# Four readers of a disk that takes 10 ms a read got 0.4, 0.8, 1.5 and 1.8 GB/s with 4, 8, 16 and 32 threads.
# One reader of a warm source got 4.0 GB/s with 1 or 2 and 3.7 with 16. A waiting thread costs no time.
THREADS: Final = 16
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_JOIN_SECONDS: Final = 2.0
# ENOENT: the request was withdrawn before it could be read. EINTR is retried by Python itself.
_RETRY: Final = frozenset({errno.ENOENT, errno.EAGAIN, errno.EINTR})
# ENODEV: unmounted. ECONNABORTED: the connection was aborted.
_ENDED: Final = frozenset({errno.ENODEV, errno.ECONNABORTED})


class Session:
    """A plan mounted by this process; a context manager that leaves nothing mounted.

    `ended` receives None when the mount ends from outside; signal handlers put their signal into it.
    """

    def __init__(self, plan: Plan, mountpoint: str, options: MountOptions | None = None) -> None:
        self._plan = plan
        self._options = options or MountOptions()
        self._path = mountpoint
        self._device = -1
        self._mount: mountpoints.Mount | None = None
        self._threads: list[Thread] = []
        # A stack: the buffer used last is used next, so that it is still in the processor's cache.
        self._buffers: list[ReplyBuffer] = []
        self._pool: SourcePool | None = None
        self.ended: SimpleQueue[signal.Signals | None] = SimpleQueue()

    def start(self) -> None:
        """Mount and serve; when it returns, the mount answers.

        Raises RemapError, with nothing mounted, if this host, the mount point or a source does not allow it.
        """
        plan = self._plan
        self._path = mountpoints.check_mountpoint(plan, self._path)
        self._pool = SourcePool(sources_of(plan))
        try:
            server = Server(plan, self._pool, self._options.read_ahead)
            self._device = mount(plan, self._path, allow_other=self._options.allow_other)
            self._mount = mountpoints.mounted_at(self._path)
            # The kernel sends INIT first and nothing else until it is answered. It resets the read-ahead.
            threads = self._options.threads or THREADS
            self._buffers += [ReplyBuffer() for _ in range(threads)]
            _answer_one(self._device, server, _request_buffer(), self._buffers)
            self._raise_read_ahead()
            for number in range(threads):
                name = f"fuse-{number}"
                thread = Thread(target=self._serve, args=(server,), name=name, daemon=True)
                thread.start()
                self._threads.append(thread)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Unmount, whether or not files are still open, and release everything. It may be called twice."""
        self._unmount()
        deadline = monotonic() + _JOIN_SECONDS
        for thread in self._threads:
            thread.join(max(deadline - monotonic(), 0))
        # A mount that is still used, here after a lazy unmount by a user or in another mount namespace,
        # keeps its threads, and they the descriptors. Both end with the process.
        if any(thread.is_alive() for thread in self._threads):
            return
        self._threads.clear()
        if self._device >= 0:
            os.close(self._device)
            self._device = -1
        if self._pool is not None:
            self._pool.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _serve(self, server: Server) -> None:
        request, device, buffers = _request_buffer(), self._device, self._buffers
        try:
            while _answer_one(device, server, request, buffers):
                pass
        finally:
            self.ended.put(None)

    def _raise_read_ahead(self) -> None:
        """Set the mount's read-ahead, which INIT can only lower, through its backing device info."""
        if self._mount is None:
            return
        knob = Path(f"/sys/class/bdi/{self._mount.device}/read_ahead_kb")
        wanted = self._options.read_ahead >> 10
        try:
            knob.write_text(str(wanted))
        except OSError as error:
            LOGGER.warning(
                "reading will be slower, the read-ahead stays small (%s: %s); as root: echo %d > %s",
                knob,
                error.strerror,
                wanted,
                knob,
            )

    def _unmount(self) -> None:
        mount = self._mount
        if mount is None or mount not in mountpoints.mounts():
            return
        if mountpoints.mounted_at(self._path) != mount:
            LOGGER.error("cannot unmount %s: something else is mounted over it", self._path)
            return
        try:
            mountpoints.release(self._path, lazy=False)
        except OSError as error:
            if error.errno != errno.EBUSY:
                LOGGER.error("cannot unmount %s: %s", self._path, error.strerror)
                return
            LOGGER.warning("%s is still in use: detaching it, its readers will fail", self._path)
            mountpoints.release(self._path, lazy=True)
        self._mount = None


def serve(plan: Plan, mountpoint: str, options: MountOptions, on_ready: Callable[[], None]) -> None:
    """Mount `plan` and serve it until it is unmounted or SIGTERM, SIGINT or SIGHUP asks to stop.

    Call it in the main thread. `on_ready` is called once, when the mount answers. Raises RemapError
    before anything is mounted if it cannot be.
    """
    session = Session(plan, mountpoint, options)
    # A queue's put may interrupt its own get, so a handler can use it; handlers come before the mount,
    # so that no signal can end the process with the mount left behind.
    handlers = {
        number: signal.signal(number, lambda n, _: session.ended.put(signal.Signals(n)))
        for number in _SIGNALS
    }
    try:
        with session:
            on_ready()
            reason = session.ended.get()
            LOGGER.info("%s: %s", mountpoint, f"stopping on {reason.name}" if reason else "unmounted")
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _request_buffer() -> memoryview:
    return memoryview(bytearray(wire.REQUEST_SIZE))


def _answer_one(device: int, server: Server, request: memoryview, buffers: list[ReplyBuffer]) -> bool:
    """Read one request and answer it with a buffer of the stack; False when the connection has ended."""
    try:
        length = os.readv(device, [request])
    except OSError as error:
        if error.errno in _RETRY:
            return True
        if error.errno not in _ENDED:
            LOGGER.error("cannot read from /dev/fuse: %s", error.strerror)
        return False
    reply = buffers.pop()
    answer = server.handle(request[:length], reply)
    if answer is not None:
        _write(device, answer)
    buffers.append(reply)
    return True


def _write(device: int, answer: memoryview | bytes) -> None:
    try:
        os.write(device, answer)
    except OSError as error:
        # ENOENT: nobody waits for this answer any more. ENODEV: nor for any other.
        if error.errno not in {errno.ENOENT, *_ENDED}:
            LOGGER.error("the kernel refused an answer: %s", error.strerror)
