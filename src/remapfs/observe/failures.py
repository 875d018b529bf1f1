"""What the log says of sources that fail: each once, then how often it happened again."""

from __future__ import annotations

from dataclasses import dataclass
from threading import Lock
from time import monotonic, time
from typing import TYPE_CHECKING, Final

from remapfs.observe.events import event
from remapfs.present.options import LOGGER

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_EVERY_SECONDS: Final = 60.0


@dataclass(slots=True)
class _Repeated:
    """A failure that was logged at `since`, and what happened after: how often, and last at which byte."""

    since: float
    count: int = 0
    offset: int = 0


class FailureLog:
    """Logs that a source failed: one line a file and cause, and a count when it changes or once a minute.

    It may be used by many threads. `tell` is called with each failure that is logged for the first time.
    """

    def __init__(self) -> None:
        self.tell: Callable[[Mapping[str, object]], None] = lambda _: None
        self._lock = Lock()
        self._known: dict[tuple[str, str], _Repeated] = {}

    def report(self, path: str, cause: str, offset: int, sentence: str) -> None:
        """Report that reading `path` failed at byte `offset` for a `cause`, which `sentence` describes."""
        key = path, cause
        with self._lock:
            known = self._known.get(key)
            if known:
                known.count += 1
                known.offset = offset
                if monotonic() - known.since >= _EVERY_SECONDS:
                    self._summarise(key, known)
                return
            for other, earlier in self._known.items():
                if other[0] == path:
                    self._summarise(other, earlier)
            self._known[key] = _Repeated(monotonic())
            failure: dict[str, object] = {"file": path, "cause": cause, "offset": offset}
            LOGGER.error("%s: %s", path, sentence, extra=event("source-failed", **failure))
            self.tell({**failure, "text": sentence, "time": time()})

    def tick(self) -> None:
        """Log what happened again and was not logged for a minute; to be called now and then."""
        with self._lock:
            for key, known in self._known.items():
                if monotonic() - known.since >= _EVERY_SECONDS:
                    self._summarise(key, known)

    def flush(self) -> None:
        """Log what happened again and was not logged yet."""
        with self._lock:
            for key, known in self._known.items():
                self._summarise(key, known)

    @staticmethod
    def _summarise(key: tuple[str, str], known: _Repeated) -> None:
        if known.count:
            path, cause = key
            LOGGER.error(
                "%s: %s: %d more failed reads in %d s, the last at byte %d",
                path,
                cause,
                known.count,
                round(monotonic() - known.since),
                known.offset,
                extra=event(
                    "source-failed-again", file=path, cause=cause, offset=known.offset, count=known.count
                ),
            )
        known.since, known.count = monotonic(), 0
