"""Rules that cannot tell one layer or expert from another.

A number that fills a whole dotted segment (`layers.17.`, `experts.203.`) is called a slot. A rule is blind
when its outcome is provably the same whatever number a slot holds. Then one name stands for all that differ
only in their slots, and 280,000 names cost no more than the hundred or so kinds of them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from remapfs.rules.model import Alias, Drop, Match, Rename

if TYPE_CHECKING:
    from remapfs.rules.model import Pattern, Step

SLOT = re.compile(r"\.(\d+)(?![^.])")

_TOKEN = re.compile(
    r"""(?P<digits>\\d\+(?![?+]))           # a whole run of digits
      | (?P<group>\((?:\?:)?(?!\?))
      | (?P<close>\))
      | (?P<other>[|?^$])
      | \[(?P<letters>[A-Za-z_]+)\]
      | \\(?P<escaped>[^\w\s])
      | (?P<plain>[^\\()\[\]{}|?^$.*+\s])""",
    re.VERBOSE,
)
_NOT_YET = re.compile(r"\^\(\?!(?:\\[^\w\s]|[^\\()\[\]{}|?^$.*+\s\d])+\)")


def is_blind(step: Step) -> bool:
    """Say whether the step treats alike all names that differ only in their slots; False when unsure."""
    match step:
        case Rename(pattern) | Drop(pattern):
            return _blind_pattern(pattern)
        case Alias(name):
            # Also its first segment: a rename may take away what stands before a slot.
            return not any(segment.isdigit() for segment in name.split("."))


def _blind_pattern(pattern: Pattern) -> bool:
    if isinstance(pattern, Match):
        regex = pattern.regex
        opaque = regex.flags & (re.IGNORECASE | re.VERBOSE | re.LOCALE)
        # What matches nothing at all between two digits would be replaced inside a slot.
        if not opaque and _NOT_YET.fullmatch(regex.pattern):
            # The start of every name that does not begin with a text without digits.
            return True
        return not opaque and _blind_regex(regex.pattern) and not regex.match("00", 1)
    return not any(char.isdigit() for char in pattern.text)


def _blind_regex(source: str) -> bool:
    r"""Accept only what can be proved.

    Only `\d+` and literal digits can match a digit here. Each must follow a literal character at once:
    `\d+` any that is no digit, so that it starts where a run of digits starts, and a literal digit one
    that is no dot, so that its segment is no slot. Greedy `\d+` takes the whole run first, and giving
    digits back cannot help, since nothing that may follow it matches a digit.
    """
    position, before = 0, ""
    while position < len(source):
        token = _TOKEN.match(source, position)
        if token is None:
            return False
        position = token.end()
        match token.lastgroup:
            case "digits":
                if not before or before.isdigit():
                    return False
                before = ""
            case "escaped" | "plain" | "letters":
                char = token[token.lastgroup][-1]
                if char.isdigit() and (not before or before == "."):
                    return False
                before = char
            case "group":
                # Opening a group matches nothing: what came before it still stands directly before what it
                # holds.
                pass
            case _:
                before = ""
    return True
