"""The text that every match of a regular expression contains."""

from __future__ import annotations

import re

_OPAQUE = re.IGNORECASE | re.VERBOSE | re.LOCALE
_CLASSES = frozenset("dDsSwWbBAZ")


def required_literal(regex: re.Pattern[str]) -> str:
    """Find literal text without which the expression cannot match; "" where none is certain.

    Looking for text in a name is many times cheaper than searching with an expression that rarely matches.
    Only what stands outside of groups and alternatives counts, so the answer is never wrong, only short.
    """
    if regex.flags & _OPAQUE:
        return ""
    source, best, run = regex.pattern, "", ""
    depth = position = 0
    while position < len(source):
        char = source[position]
        position += 1
        kept = ""
        if char == "\\":
            escaped = source[position : position + 1]
            position += 1
            if escaped.isalnum() and escaped not in _CLASSES:
                return ""
            kept = "" if escaped.isalnum() else escaped
        elif char == "[":
            position = _class_end(source, position)
        elif char in "()":
            depth += 1 if char == "(" else -1
        elif char == "|" and not depth:
            return ""
        elif char in "?*{" and not depth:
            run = run[:-1]
        elif char not in "^$.|+?*{":
            kept = char
        if kept and not depth:
            run += kept
        else:
            best, run = max(best, run, key=len), ""
    return max(best, run, key=len)


def _class_end(source: str, position: int) -> int:
    position += source[position : position + 1] == "^"
    position += source[position : position + 1] == "]"
    while position < len(source) and source[position] != "]":
        position += 2 if source[position] == "\\" else 1
    return position + 1
