"""Where the log of a server goes."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from remapfs.errors import RemapError
from remapfs.present.options import LOGGER

if TYPE_CHECKING:
    from collections.abc import Callable


def log_handler(file: str | None, otherwise: Callable[[], logging.Handler]) -> logging.Handler:
    """Open the log `file`, or make what is used without one; raises RemapError if it cannot be written."""
    if not file:
        handler = otherwise()
        if handler.formatter is None:
            handler.setFormatter(logging.Formatter("%(name)s: %(message)s"))
        return handler
    try:
        handler = logging.FileHandler(file)
    except OSError as error:
        raise RemapError(f"cannot write the log {file}: {error.strerror}", "give another --log") from None
    handler.setFormatter(logging.Formatter("%(asctime)s %(name)s %(message)s"))
    return handler


def log_to(handler: logging.Handler) -> None:
    """Send the log there, from events that a user wants to know of on."""
    LOGGER.addHandler(handler)
    LOGGER.setLevel(logging.INFO)
