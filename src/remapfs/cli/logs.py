"""Where the log of a server goes, and what its lines look like: one line an event."""

from __future__ import annotations

import json
import logging
import logging.handlers
import os
import sys
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from remapfs.errors import RemapError
from remapfs.observe.events import FIELD
from remapfs.present.options import LOGGER

if TYPE_CHECKING:
    from collections.abc import Callable

_TAGGED: Final = "%(name)s[%(process)d]: %(message)s"
_TEXT: Final = "%(name)s: %(message)s"
_DATED: Final = "%(asctime)s %(name)s %(message)s"
# The levels of sd-daemon(3), which are those of syslog.
_PRIORITIES: Final = ((logging.CRITICAL, 2), (logging.ERROR, 3), (logging.WARNING, 4), (logging.INFO, 6))
_DEBUG: Final = 7


class LogForm(StrEnum):
    """What a line of the log is: text for a person, or one JSON object."""

    TEXT = "text"
    JSON = "json"


def log_handler(
    file: str | None, otherwise: Callable[[], logging.Handler], form: LogForm = LogForm.TEXT
) -> logging.Handler:
    """Open the log `file`, or make what is used without one; raises RemapError if it cannot be written."""
    if not file:
        handler = otherwise()
        if isinstance(handler, logging.handlers.SysLogHandler):
            handler.ident = f"{LOGGER.name}: " if form is LogForm.JSON else ""
            handler.setFormatter(_Lines(_TAGGED, form, priorities=False))
        else:
            handler.setFormatter(_Lines(_TEXT, form, priorities=is_journal()))
        return handler
    try:
        handler = logging.FileHandler(file)
    except OSError as error:
        raise RemapError(f"cannot write the log {file}: {error.strerror}", "give another --log") from None
    handler.setFormatter(_Lines(_DATED, form, priorities=False))
    return handler


def log_to(handler: logging.Handler) -> None:
    """Send the log there, from events that a user wants to know of on."""
    # A log that cannot be written, as on a full disk, is lost: its reason must not become another log.
    logging.raiseExceptions = False
    LOGGER.addHandler(handler)
    LOGGER.setLevel(logging.INFO)


class _Lines(logging.Formatter):
    """Writes an event as one line, whatever it says: a file's name may hold line breaks.

    With `priorities`, each line begins with its level as journald reads it.
    """

    def __init__(self, text: str, form: LogForm, *, priorities: bool) -> None:
        super().__init__(text)
        self._form = form
        self._priorities = priorities

    def format(self, record: logging.LogRecord) -> str:
        """Write one line."""
        line = self._object(record) if self._form is LogForm.JSON else _one_line(super().format(record))
        return f"<{_priority(record.levelno)}>{line}" if self._priorities else line

    def _object(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC)
        told = {
            "time": moment.isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
            "pid": record.process,
            **vars(record).get(FIELD, {}),
        }
        if record.exc_info:
            told["exception"] = self.formatException(record.exc_info)
        return json.dumps(told)


def _one_line(text: str) -> str:
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def _priority(level: int) -> int:
    return next((number for least, number in _PRIORITIES if level >= least), _DEBUG)


def is_journal() -> bool:
    """Whether stderr is the journal: systemd says which stream it is, and others may stand there by now."""
    told = os.environ.get("JOURNAL_STREAM", "")
    try:
        status = os.fstat(sys.stderr.fileno())
    except (OSError, ValueError):
        return False
    return told == f"{status.st_dev}:{status.st_ino}"
