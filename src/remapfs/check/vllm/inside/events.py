"""What is told to the process outside: JSON, a line an event, on a pipe of its own."""

from __future__ import annotations

import json
import os


class Events:
    """Write events to a file descriptor; vLLM's own output goes elsewhere."""

    def __init__(self, descriptor: int) -> None:
        self._stream = os.fdopen(descriptor, "w", encoding="utf-8")

    def send(self, event: str, **fields: object) -> None:
        """Write one event, at once."""
        print(json.dumps({"event": event, **fields}), file=self._stream, flush=True)


def sentence(error: BaseException, most: int = 300) -> str:
    """Write an exception as one line: its type and the start of its text."""
    text = " ".join(str(error).split())
    for tail in _TAILS:
        text = text.partition(tail)[0]
    shown = text if len(text) <= most else text[:most] + "…"
    return f"{type(error).__name__}: {shown}" if shown else type(error).__name__


# vLLM lists every parameter of the module, which can be thousands.
_TAILS = (" The available parameters belonging to",)
