"""Signals as something to wait for, beside descriptors."""

from __future__ import annotations

import os
import select
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import FrameType, TracebackType

_MILLISECONDS: Final = 1000


class SignalQueue:
    """Collects `wanted` signals while its context lasts; the main thread only.

    No signal is lost between two looks: the interpreter writes each into a pipe that `wait` watches.
    """

    def __init__(self, wanted: Iterable[signal.Signals]) -> None:
        self._wanted = tuple(wanted)
        self._before: list[tuple[signal.Signals, Callable[[int, FrameType | None], object] | int | None]] = []
        self._reading, self._writing = -1, -1
        self._wakeup = -1

    def wait(self, descriptors: Iterable[int], seconds: float | None) -> set[int]:
        """Wait until a signal came, a descriptor has something to read or has ended, or `seconds` are over.

        Returns those descriptors. One below 0 is not waited for.
        """
        poll = select.poll()
        poll.register(self._reading, select.POLLIN)
        for each in descriptors:
            if each >= 0:
                poll.register(each, select.POLLIN)
        ready = poll.poll(None if seconds is None else max(seconds, 0) * _MILLISECONDS)
        return {found for found, _ in ready} - {self._reading}

    def take(self) -> list[signal.Signals]:
        """Give the signals that came since the last look, in their order."""
        try:
            numbers = os.read(self._reading, 4096)
        except BlockingIOError:
            return []
        return [signal.Signals(number) for number in numbers if number in self._wanted]

    def leave(self) -> None:
        """Let go in a forked child, whose signals are its own; its handlers stay until it sets others."""
        signal.set_wakeup_fd(self._wakeup)
        os.close(self._reading)
        os.close(self._writing)

    def __enter__(self) -> Self:
        """Begin to collect."""
        self._reading, self._writing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._wakeup = signal.set_wakeup_fd(self._writing, warn_on_full_buffer=False)
        # A signal reaches the pipe only if Python handles it.
        self._before = [(number, signal.signal(number, _nothing)) for number in self._wanted]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Put everything back as it was."""
        for number, handler in self._before:
            signal.signal(number, handler)
        self.leave()


@contextmanager
def blocked(numbers: Iterable[signal.Signals]) -> Iterator[None]:
    """Hold signals back while the context lasts; they arrive at its end."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _nothing(_number: int, _frame: FrameType | None) -> None:
    pass
