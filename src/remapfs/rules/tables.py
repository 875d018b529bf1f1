"""One TOML table as one rule."""

from __future__ import annotations

import re
import warnings
from typing import TYPE_CHECKING, Any

from remapfs.errors import RemapError
from remapfs.rules.model import (
    Alias,
    Drop,
    Hide,
    Json,
    Match,
    Origin,
    Pattern,
    Prefix,
    Refuse,
    Rename,
    Step,
    Substring,
    Suffix,
)
from remapfs.rules.spelling import check_keys

if TYPE_CHECKING:
    from collections.abc import Mapping

_PATTERNS = ("match", "prefix", "suffix", "substring")
KINDS: Mapping[str, frozenset[str]] = {
    "rename": frozenset({*_PATTERNS, "to", "optional"}),
    "drop": frozenset({*_PATTERNS, "optional"}),
    "alias": frozenset({"name", "as", "optional"}),
    "hide": frozenset({"files", "optional"}),
    "json": frozenset({"file", "jq", "if_tensor", "optional"}),
    "refuse": frozenset({"match", "dtypes", "because", "hint"}),
}


def check_table(table: Mapping[str, Any], origin: Origin) -> None:
    """Refuse a key that this kind of rule does not take."""
    check_keys(table, KINDS[origin.kind], str(origin))


def read_table(table: Mapping[str, Any], origin: Origin, *, optional: bool) -> Step | Hide | Json | Refuse:
    """Turn a table into the rule that `origin` says it is; raises RemapError that names the rule.

    `optional` holds where the table does not say.
    """
    own = table.get("optional", optional)
    if not isinstance(own, bool):
        raise RemapError(f"{origin}: optional is not true or false", "write  optional = true")
    match origin.kind:
        case "rename":
            return _rename(table, origin, optional=own)
        case "drop":
            return Drop(_pattern(table, origin), origin, own)
        case "alias":
            return Alias(_text(table, "name", origin), _text(table, "as", origin), origin, own)
        case "hide":
            return Hide(_texts(table, "files", origin), origin, own)
        case "json":
            return _json(table, origin, optional=own)
        case _:
            return _refuse(table, origin)


def _rename(table: Mapping[str, Any], origin: Origin, *, optional: bool) -> Rename:
    pattern, to = _pattern(table, origin), _text(table, "to", origin, empty=True)
    if isinstance(pattern, Match):
        try:
            # The empty alternative makes the expression match, so that the groups `to` refers to are checked.
            re.compile(pattern.regex.pattern + "|").sub(to, "")
        except (re.error, IndexError) as error:
            raise RemapError(
                f"{origin}: its 'to' does not fit its 'match': {error}",
                "\\1 is the first group; a backslash is \\\\",
            ) from None
    return Rename(pattern, to, origin, optional)


def _json(table: Mapping[str, Any], origin: Origin, *, optional: bool) -> Json:
    import jq  # noqa: PLC0415  # most rules files have no json rule, and the import costs start-up time

    program = _text(table, "jq", origin)
    try:
        jq.compile(program)
    except ValueError as error:
        raise RemapError(
            f"{origin}: jq does not accept its program: {error}", "try it with the jq command"
        ) from None
    condition = _regex(_text(table, "if_tensor", origin), origin) if "if_tensor" in table else None
    return Json(_text(table, "file", origin), program, condition, origin, optional)


def _refuse(table: Mapping[str, Any], origin: Origin) -> Refuse:
    dtypes = frozenset(_texts(table, "dtypes", origin)) if "dtypes" in table else frozenset[str]()
    regex = _regex(_text(table, "match", origin), origin)
    hint = _text(table, "hint", origin) if "hint" in table else ""
    return Refuse(regex, dtypes, _text(table, "because", origin), hint, origin)


def _pattern(table: Mapping[str, Any], origin: Origin) -> Pattern:
    given = [key for key in _PATTERNS if key in table]
    if len(given) != 1:
        found = " and ".join(given) if given else "none"
        raise RemapError(f"{origin} needs one of {', '.join(_PATTERNS)}; it has {found}", "keep one of them")
    text = _text(table, given[0], origin)
    match given[0]:
        case "match":
            return Match(_regex(text, origin))
        case "prefix":
            return Prefix(text)
        case "suffix":
            return Suffix(text)
        case _:
            return Substring(text)


def _regex(text: str, origin: Origin) -> re.Pattern[str]:
    try:
        with warnings.catch_warnings(action="ignore"):  # what a later Python might read otherwise
            return re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        raise RemapError(
            f"{origin}: '{text}' is not a regular expression: {error}",
            "for literal text use prefix, suffix or substring",
        ) from None


def _text(table: Mapping[str, Any], key: str, origin: Origin, *, empty: bool = False) -> str:
    value = table.get(key)
    if not isinstance(value, str) or not (value or empty):
        found = "is missing" if key not in table else f"is {value!r}, not text"
        raise RemapError(f"{origin}: '{key}' {found}", f"write  {key} = '…'")
    return value


def _texts(table: Mapping[str, Any], key: str, origin: Origin) -> tuple[str, ...]:
    value = table.get(key)
    if not isinstance(value, list) or not value or not all(isinstance(item, str) for item in value):
        raise RemapError(f"{origin}: '{key}' is not a list of texts", f"write  {key} = ['…']")
    return tuple(value)
