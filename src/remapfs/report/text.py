"""Text from a checkpoint, made fit for a page; numbers as the page writes them."""

from __future__ import annotations

import html
import unicodedata

_UNSHOWN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_UNITS = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"))


def visible(text: str) -> str:
    r"""Write what no font shows, or what turns the direction of its neighbours, as \uXXXX.

    Control and format characters, lone surrogates, line and paragraph separators.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(_code(each) if unicodedata.category(each) in _UNSHOWN else each for each in text)


def escape(text: str) -> str:
    """Make text fit for HTML, between tags and in quoted attributes."""
    return html.escape(visible(text))


def escape_lines(text: str) -> str:
    """Make text of several lines fit for HTML: its line feeds stay."""
    return "\n".join(map(escape, text.split("\n")))


def size(number: int) -> str:
    """Write a number of bytes in decimal units, as disk and checkpoint sizes are given."""
    for unit, name in _UNITS:
        if number >= unit:
            return f"{number / unit:.1f}\N{NO-BREAK SPACE}{name}"
    return f"{number}\N{NO-BREAK SPACE}B"


def share(part: int, whole: int) -> str:
    """Write a part in per cent, rounded so that only all is 100 and only none is 0."""
    if not whole or part == whole:
        return "100 %" if whole else "0 %"
    hundredths = part * 10_000 // whole
    if part and not hundredths:
        return "less than 0.01 %"
    return f"{hundredths / 100:g} %"


def _code(character: str) -> str:
    number = ord(character)
    return f"\\u{number:04x}" if number <= 0xFFFF else f"\\U{number:08x}"  # noqa: PLR2004  # the last of four digits
