"""Numbers, lists and names as messages write them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_UNITS = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"))


def count(number: int, what: str) -> str:
    """Write a number with its noun."""
    return f"{number:,} {what}" + ("s" if number != 1 else "")


def size(number: int) -> str:
    """Write a number of bytes in decimal units, as disk and checkpoint sizes are given."""
    for unit, name in _UNITS:
        if number >= unit:
            return f"{number / unit:.1f} {name}"
    return f"{number} B"


def some(items: Sequence[str], most: int) -> str:
    """Write the first `most` items and how many more there are."""
    more = f" and {len(items) - most:,} more" if len(items) > most else ""
    return ", ".join(items[:most]) + more


def printable(text: str) -> str:
    """Write characters that a terminal would obey, and those that begin a line, as escapes."""
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode("ascii") for each in text
    )
