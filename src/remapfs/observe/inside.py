"""Answering for a mount from a thread of the process that serves it, where there is no supervisor."""

from __future__ import annotations

import os
import signal
from threading import Thread
from typing import TYPE_CHECKING, Self

from remapfs.observe.answering import answer
from remapfs.observe.place import listen
from remapfs.present.options import LOGGER
from remapfs.present.supervise.signals import blocked

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable
    from types import TracebackType

    from remapfs.observe.answering import Asked


class InsideReporter:
    """A thread that answers from `start` to the end of the context. A mount never fails for it."""

    def __init__(self, asked: Asked, each_second: Callable[[], None]) -> None:
        self._asked = asked
        self._each_second = each_second
        self._socket: socket.socket | None = None
        self._path = ""
        self._stopping, self._stop = os.pipe2(os.O_CLOEXEC)
        self._thread = Thread(target=self._run, name="status", daemon=True)

    def start(self, device: str) -> None:
        """Answer for the mount with this device."""
        try:
            self._socket, self._path = listen(device) or (None, "")
        except OSError as error:
            LOGGER.warning("remapfs status will not be answered: %s", error)
        self._asked.board.server_started(os.getpid())
        # A signal that the kernel gave to this thread would not wake the main one.
        with blocked(signal.valid_signals()):
            self._thread.start()

    def __enter__(self) -> Self:
        """Have the context in which it answers."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop, and take the socket away."""
        os.close(self._stop)
        if self._thread.is_alive():
            self._thread.join()
        os.close(self._stopping)
        if self._socket:
            self._socket.close()
            os.unlink(self._path)

    def _run(self) -> None:
        try:
            answer(self._asked, self._socket, {}, self._stopping, self._second)
        except Exception:  # noqa: BLE001 - the mount goes on without it
            LOGGER.exception("remapfs status is not answered any more")

    def _second(self) -> None:
        self._asked.board.beat()
        self._each_second()
