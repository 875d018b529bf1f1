"""What a log line carries beside its text, for programs that read logs."""

from __future__ import annotations

FIELD = "remapfs"
"""The attribute of a log record that holds it."""


def event(name: str, **fields: object) -> dict[str, object]:
    """Make the `extra` of a log call: the event's name and what belongs to it."""
    return {FIELD: {"event": name, **fields}}
