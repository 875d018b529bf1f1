"""The threads that read the kernel's requests and write the answers."""

from __future__ import annotations

import errno
import os
import struct
from dataclasses import dataclass, field
from threading import Thread
from time import monotonic
from typing import TYPE_CHECKING, Final

from remapfs.observe.counters import Board
from remapfs.present.fuse import wire
from remapfs.present.fuse.server import ReplyBuffer
from remapfs.present.fuse.splicing import Splicer
from remapfs.present.fuse.wire import Opcode
from remapfs.present.options import LOGGER

if TYPE_CHECKING:
    from collections.abc import Callable

    from remapfs.observe.counters import Row
    from remapfs.present.fuse.server import Server

# Four readers of a disk that takes 10 ms a read got 0.4, 0.8, 1.5 and 1.8 GB/s with 4, 8, 16 and 32 threads.
# One reader of a warm source got 4.0 GB/s with 1 or 2 and 3.7 with 16. A waiting thread costs no time.
THREADS: Final = 16
# ENOENT: the request was withdrawn before it could be read. EINTR is retried by Python itself.
_RETRY: Final = frozenset({errno.ENOENT, errno.EAGAIN, errno.EINTR})
# ENODEV: unmounted. ECONNABORTED: the connection was aborted.
_ENDED: Final = frozenset({errno.ENODEV, errno.ECONNABORTED})
# Of fuse_in_header and fuse_out_header.
_OPCODE: Final = struct.Struct("=4xI")
_ERRNO: Final = struct.Struct("=4xi")
# An enum's member, or a struct's size, takes longer to look up than to use.
_READ: Final = int(Opcode.READ)
_HEADER: Final = wire.OUT_HEADER.size


class ServingThreads:
    """Answer what comes from `device` in the threads that `board` has rows for, until the connection ends.

    `on_end` is called by each thread at its end, with the error that ended it or None if the mount did.
    """

    def __init__(
        self, device: int, server: Server, board: Board, on_end: Callable[[OSError | None], None]
    ) -> None:
        self._device = device
        self._server = server
        self._board = board
        self._on_end = on_end
        # A stack: the buffer used last is used next, so that it is still in the processor's cache.
        self._buffers = [ReplyBuffer() for _ in range(board.threads)]
        self._threads: list[Thread] = []

    def start(self) -> None:
        """Start the threads."""
        self._board.begin()
        for number in range(self._board.threads):
            row = self._board.row(number)
            thread = Thread(target=self._serve, args=(row,), name=f"fuse-{number}", daemon=True)
            thread.start()
            self._threads.append(thread)

    def join(self, seconds: float) -> bool:
        """Wait for all threads to end, and say whether they have."""
        deadline = monotonic() + seconds
        for thread in self._threads:
            thread.join(max(deadline - monotonic(), 0))
        return not any(thread.is_alive() for thread in self._threads)

    def _serve(self, row: Row) -> None:
        failure = None
        splicer = Splicer(self._device, self._server)
        answering = _Answering(self._device, self._server, self._buffers, row, splicer)
        try:
            while answering.one():
                pass
        except OSError as error:
            LOGGER.error("cannot read from /dev/fuse: %s", error.strerror)
            failure = error
        finally:
            splicer.close()
            self._on_end(failure)


def answer_init(device: int, server: Server) -> None:
    """Answer the kernel's first request, which it sends by itself; no other comes before the answer."""
    _Answering(device, server, [ReplyBuffer()], board(1).row(0), Splicer(device, server)).one()


def board(threads: int | None) -> Board:
    """Make the counters of a server with so many threads, or with its own choice."""
    return Board(threads or THREADS, {opcode.value: opcode.name.lower() for opcode in Opcode})


def resend(device: int) -> bool:
    """Ask the kernel to hand out again what a server took and did not answer.

    Nobody may be serving: a request that is taken by one server and handed out again stays with whom took
    it last, and is lost if that one dies without another RESEND. Returns False on kernels before 6.9, which
    cannot do it.
    """
    try:
        os.write(device, wire.RESEND)
    except OSError as error:
        if error.errno == errno.EINVAL:
            return False
        if error.errno not in _ENDED:
            raise
    return True


@dataclass(frozen=True, slots=True)
class _Answering:
    """What one thread answers with: a stack of buffers that all share, counters and a pipe of its own."""

    device: int
    server: Server
    buffers: list[ReplyBuffer]
    row: Row
    splicer: Splicer
    request: memoryview = field(default_factory=lambda: memoryview(bytearray(wire.REQUEST_SIZE)))

    def one(self) -> bool:
        """Read one request and answer it; False when the connection has ended."""
        try:
            length = os.readv(self.device, [self.request])
        except OSError as error:
            if error.errno in _RETRY:
                return True
            if error.errno in _ENDED:
                return False
            raise
        if length < wire.BODY:  # no request, so there is nobody to answer
            return True
        self.row.take()
        request = self.request[:length]
        try:
            if self.splicer.answer(request, self.row):
                return True
        except OSError as error:
            _refused(error)
            return True
        reply = self.buffers.pop()
        answer = self.server.handle(request, reply)
        # Before it is written: who has an answer finds it counted.
        _count(self.row, request, answer)
        if answer is not None:
            try:
                os.write(self.device, answer)
            except OSError as error:
                _refused(error)
        self.buffers.append(reply)
        return True


def _count(row: Row, request: memoryview, answer: memoryview | bytes | None) -> None:
    (opcode,) = _OPCODE.unpack_from(request)
    # Only what has an errno is bytes: a reply with a body is a part of a buffer.
    if isinstance(answer, bytes):
        row.done(opcode, -_ERRNO.unpack_from(answer)[0])
    elif opcode == _READ and answer is not None:
        row.done(opcode, 0, len(answer) - _HEADER)
    else:
        row.done(opcode)


def _refused(error: OSError) -> None:
    # ENOENT: nobody waits for this answer any more. ENODEV: nor for any other.
    if error.errno not in {errno.ENOENT, *_ENDED}:
        LOGGER.error("the kernel refused an answer: %s", error.strerror)
