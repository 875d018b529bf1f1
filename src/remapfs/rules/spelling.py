"""Names that nobody knows, and the nearest one that somebody does."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any

from remapfs.errors import RemapError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def did_you_mean(name: str, known: Iterable[str], otherwise: str) -> str:
    """Suggest the nearest known name, or else say what stands in `otherwise`."""
    close = difflib.get_close_matches(name, list(known), 1)
    return f"did you mean '{close[0]}'?" if close else otherwise


def check_keys(table: Mapping[str, Any], known: Iterable[str], where: str) -> None:
    """Refuse a key that a table does not take; `where` names the table in the message."""
    listed = sorted(known)
    for key in table:
        if key not in listed:
            raise RemapError(
                f"{where}: unknown key '{key}'", did_you_mean(key, listed, f"it takes {', '.join(listed)}")
            )
