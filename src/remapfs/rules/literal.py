"""The text that every match of a regular expression contains."""

from __future__ import annotations

import re
from functools import lru_cache

_OPAQUE = re.IGNORECASE | re.VERBOSE | re.LOCALE
_TOKEN = re.compile(
    r"""\\(?P<kind>[dDsSwWbBAZ])         # a class of characters or a position
      | \\(?P<escaped>[^\w])
      | (?P<unclear>\\.|\(\?\#)          # a number, a name, a code or a comment: not worth understanding
      | (?P<set>\[\^?\]?(?:\\.|[^\]\\])*\])
      | (?P<open>\()
      | (?P<close>\))
      | (?P<either>\|)
      | (?P<optional>[?*]|\{[\d,]*\})
      | (?P<other>[\^$.+])
      | (?P<plain>.)""",
    re.VERBOSE | re.DOTALL,
)


@lru_cache
def required_literal(regex: re.Pattern[str]) -> str:
    """Find literal text without which the expression cannot match; "" where none is certain.

    Looking for text in a name is many times cheaper than searching with an expression that rarely matches.
    Only what stands outside of groups and alternatives counts, so the answer is never wrong, only short.
    """
    if regex.flags & _OPAQUE:
        return ""
    runs, depth = [""], 0
    for token in _TOKEN.finditer(regex.pattern):
        kind = token.lastgroup or ""
        if kind == "unclear" or (kind == "either" and not depth):
            return ""
        depth += (kind == "open") - (kind == "close")
        if kind in ("escaped", "plain") and not depth:
            runs[-1] += token[kind]
        elif kind == "optional" and not depth:
            runs[-1] = runs[-1][:-1]
            runs.append("")
        elif runs[-1]:
            runs.append("")
    return max(runs, key=len)
