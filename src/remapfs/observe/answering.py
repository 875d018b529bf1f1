"""Answering on a mount's socket, and for Prometheus."""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import struct
from collections import deque
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Final

from remapfs import __version__
from remapfs.observe.place import written
from remapfs.observe.processes import look_at
from remapfs.observe.report import About, Rate, report, rules_digest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from remapfs.observe.counters import Board
    from remapfs.observe.report import Document
    from remapfs.plan.model import Plan
    from remapfs.present.options import MountOptions

_CREDENTIALS: Final = struct.Struct("=iII")  # struct ucred: pid, uid, gid
_SAMPLE_SECONDS: Final = 1.0
_SAMPLES: Final = 6
_SEND_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class Asked:
    """What a reporter answers about, and where `metrics` are asked for."""

    about: Callable[[], About]
    board: Board
    metrics: socket.socket | None


def answer(
    asked: Asked,
    listening: socket.socket | None,
    pids: Mapping[str, int],
    stop: int = -1,
    each_second: Callable[[], None] = lambda: None,
) -> None:
    """Answer until `stop` has something to read or has ended; below 0, for ever.

    `pids` are the mount's processes but for its server, which the counters name.
    """
    about, history = asked.about(), History(asked.board)
    if asked.metrics is not None:
        from remapfs.observe.metrics import serve  # noqa: PLC0415 - it needs an optional package

        serve(asked.metrics, about, asked.board)
    poll = select.poll()
    for each in (listening.fileno() if listening else -1, stop):
        if each >= 0:
            poll.register(each, select.POLLIN)
    while stop not in (ready := {found for found, _ in poll.poll(_SAMPLE_SECONDS * 1000)}):
        history.sample()
        each_second()
        if ready and listening is not None:
            with contextlib.suppress(OSError):
                connection, _ = listening.accept()
                with connection:
                    connection.settimeout(_SEND_SECONDS)
                    reply(connection, lambda: document(about, asked.board, history, pids))


def reply(connection: socket.socket, make: Callable[[], Document]) -> None:
    """Send the document to a peer who is root or this process's user, and to another that it may not know."""
    told = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, uid, _ = _CREDENTIALS.unpack(told)
    allowed = uid in (0, os.geteuid())
    text = json.dumps(make() if allowed else {"refused": f"user {uid} may not ask"})
    connection.sendall(text.encode())


def document(about: About, board: Board, history: History, pids: Mapping[str, int]) -> Document:
    """Look at the processes of the mount, and tell all."""
    counts = board.read()
    found = {name: look_at(pid) for name, pid in {**pids, "server": counts.server}.items() if pid}
    return report(about, counts, history.rate(), {name: each for name, each in found.items() if each})


@contextmanager
def metrics_socket(options: MountOptions) -> Iterator[socket.socket | None]:
    """Have the socket on which metrics are asked for, None if they are not.

    Raises RemapError if it cannot be had.
    """
    if options.metrics is None:
        yield None
        return
    from remapfs.observe.metrics import listen  # noqa: PLC0415 - start-up time: few mounts want it

    with listen(options.metrics) as listening:
        yield listening


def about_plan(
    plan: Plan, mountpoint: str, device: str, presenter: str, metrics: socket.socket | None = None
) -> About:
    """Say what is mounted; it takes a moment, as all that remapfs wrote is hashed."""
    return About(
        mountpoint,
        device,
        plan.root,
        presenter,
        __version__,
        len(plan.rules),
        rules_digest(plan),
        written(metrics) if metrics else "",
    )


class History:
    """What was read in the last seconds."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._samples: deque[tuple[float, int]] = deque(maxlen=_SAMPLES)
        self.sample()

    def sample(self) -> None:
        """Note how much was read, once a second at most."""
        now = monotonic()
        if not self._samples or now - self._samples[-1][0] >= _SAMPLE_SECONDS:
            self._samples.append((now, self._board.read().read_bytes))

    def rate(self) -> Rate:
        """Give the rate since the oldest sample."""
        then, before = self._samples[0]
        seconds = max(monotonic() - then, 1e-3)
        return Rate((self._board.read().read_bytes - before) / seconds, seconds)
