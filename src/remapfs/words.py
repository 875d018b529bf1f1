"""Numbers, lists and names as messages write them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def count(number: int, what: str) -> str:
    """Write a number with its noun."""
    return f"{number:,} {what}" + ("s" if number != 1 else "")


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
