"""A suggestion as a rules file."""

from __future__ import annotations

import json
import textwrap
from typing import TYPE_CHECKING

from remapfs.rules.model import Match, Prefix, Rename, Suffix
from remapfs.words import count

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from remapfs.rules.model import Drop, Pattern
    from remapfs.suggest.model import LeftOver, Suggestion

_WIDTH = 108


def toml(suggestion: Suggestion) -> str:
    """Write the whole file."""
    lines = [*_head(suggestion)]
    for rule in suggestion.rules:
        lines += ["", *_comments(rule.comment), *table(rule.step)]
    if suggestion.decided:
        lines += ["", "# Chosen among several that fit; check these."]
    for decision in suggestion.decided:
        lines += _comments([f"{decision.why[0].upper()}{decision.why[1:]}:"], indent="  ")
        lines += _comments([f"{old} → {new}" for old, new in decision.pairs], indent="    ")
    for title, sentences in (
        ("Not decided:", suggestion.undecided),
        ("In the source, with no counterpart in the reference:", _left(suggestion.unmapped)),
        ("Wanted by the reference, and nothing becomes it:", _left(suggestion.missing)),
    ):
        if sentences:
            lines += ["", f"# {title}", *_comments(sentences, indent="  ")]
    return "\n".join(lines) + "\n"


def table(step: Rename | Drop) -> list[str]:
    """Write one rule."""
    if isinstance(step, Rename):
        return rename_table(step.pattern, step.to)
    key, value = _pattern(step.pattern)
    return ["[[drop]]", f"{key} = {value}"]


def rename_table(pattern: Pattern, to: str) -> list[str]:
    """Write a rename rule."""
    key, value = _pattern(pattern)
    new = _literal(to) if isinstance(pattern, Match) else _text(to)
    return ["[[rename]]", f"{key} = {value}", f"{'to':<{len(key)}} = {new}"]


def _left(over: Iterable[LeftOver]) -> list[str]:
    return [f"{pattern}   {count(tensors, 'tensor')}" for pattern, tensors in over]


def _pattern(pattern: Pattern) -> tuple[str, str]:
    if isinstance(pattern, Match):
        return "match", _literal(pattern.regex.pattern)
    key = (
        "prefix" if isinstance(pattern, Prefix) else "suffix" if isinstance(pattern, Suffix) else "substring"
    )
    return key, _text(pattern.text)


def _literal(text: str) -> str:
    return f"'{text}'" if "'" not in text and text.isprintable() else _text(text)


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=not text.isprintable())


def _head(suggestion: Suggestion) -> Iterator[str]:
    rules = count(len(suggestion.rules), "rule")
    of = f"{suggestion.mapped:,} of {count(suggestion.tensors, 'tensor')}"
    yield from _comments([f"Written by remapfs suggest: {rules}, after which {of} have the wanted name."])
    yield from _comments(f"{note[0].upper()}{note[1:]}." for note in suggestion.notes)


def _comments(sentences: Iterable[str], indent: str = "") -> Iterator[str]:
    for sentence in sentences:
        # A name is never cut: it could not be searched for.
        yield from textwrap.wrap(
            "".join(char if char.isprintable() else "?" for char in sentence),
            _WIDTH,
            initial_indent=f"# {indent}",
            subsequent_indent=f"# {indent}  ",
            break_long_words=False,
            break_on_hyphens=False,
        )
