"""Threads that ask a file system, so that nobody waits for ever for one that does not answer."""

from __future__ import annotations

import os
import queue
import threading
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from typing import TYPE_CHECKING, Final, ParamSpec, Self, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

PATIENCE: Final = 120.0
"""Seconds without an answer; a file server that is replaced by another may take more than one minute."""
_LAST_CHANCE: Final = 2.0

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


class SilentError(Exception):
    """A file system that did not answer in time."""


class Workers:
    """A few threads that do what may never return; `patience` is in seconds.

    A process can end while they hang, and only so: a reader of a mount whose server stands still cannot be
    interrupted. The threads of concurrent.futures would be waited for at the end of the process.
    """

    def __init__(self, threads: int, patience: float | None = None) -> None:
        self.stuck = False
        self.patience = PATIENCE if patience is None else patience
        self._lock = threading.Lock()
        self._working = threads
        self._left: list[int] = []
        self._tasks: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._threads = [
            threading.Thread(target=self._work, name=f"remapfs-verify-{number}", daemon=True)
            for number in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for _thread in self._threads:
            self._tasks.put(None)
        if not self.stuck:
            for thread in self._threads:
                thread.join(_LAST_CHANCE)

    def submit(
        self,
        function: Callable[_Arguments, _Result],
        *arguments: _Arguments.args,
        **named: _Arguments.kwargs,
    ) -> Future[_Result]:
        """Let a thread call `function`."""
        future: Future[_Result] = Future()

        def task() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                result = function(*arguments, **named)
            except BaseException as error:  # noqa: BLE001  # it is raised where the result is asked for
                future.set_exception(error)
            else:
                future.set_result(result)

        self._tasks.put(task)
        return future

    def result(self, future: Future[_Result]) -> _Result:
        """Wait for what a thread was given; raises SilentError if that is for too long."""
        try:
            # The function itself may end with a TimeoutError: that is errno ETIMEDOUT.
            answered = wait_for((future,), self.patience).done
        except KeyboardInterrupt:
            self.give_up((future,))
            raise
        if not answered:
            self.stuck = True
            raise SilentError
        return future.result()

    def call(
        self,
        function: Callable[_Arguments, _Result],
        *arguments: _Arguments.args,
        **named: _Arguments.kwargs,
    ) -> _Result:
        """Let a thread call `function`, and wait for it; raises SilentError too."""
        return self.result(self.submit(function, *arguments, **named))

    def give_up(self, futures: Iterable[Future[_Result]]) -> None:
        """Cancel what has not begun, and wait a moment for the rest."""
        running = [future for future in futures if not future.cancel()]
        if wait_for(running, 0 if self.stuck else _LAST_CHANCE).not_done:
            self.stuck = True

    def leave(self, descriptors: Iterable[int]) -> None:
        """Let the last thread that returns close files; one that hangs may still read from them."""
        with self._lock:
            self._left += descriptors

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            task()
        with self._lock:
            self._working -= 1
            last = not self._working
        if last:
            for descriptor in self._left:
                os.close(descriptor)
