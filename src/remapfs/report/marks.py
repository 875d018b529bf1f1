"""How the page shows what becomes of a tensor."""

from __future__ import annotations

from typing import NamedTuple

from remapfs.check.model import Outcome

RENAMED, UNTOUCHED, ALIASED = "renamed", "untouched", "aliased"


class Mark(NamedTuple):
    """One outcome on the page.

    `key` is the outcome's value, or what a plan alone says. `glyph` stands in the cells of the grid, so that
    no colour has to be told from another; "" for what is as it should be. `fails` as in `Outcome.harmless`.
    """

    key: str
    label: str
    glyph: str
    meaning: str
    fails: bool

    @property
    def many(self) -> str:
        """The label of several tensors."""
        return "load" if self.key == Outcome.LOADS else self.label


_FAILING = (
    (Outcome.REFUSED, "refused", "✕", "the loader stops at it"),
    (Outcome.IGNORED, "silently ignored", "∅", "the loader writes it nowhere and says nothing"),
    (Outcome.MISSING, "missing", "?", "wanted, and nothing gives it"),
    (Outcome.DIFFERENT, "different", "≠", "wanted with another shape, dtype or quantisation"),
    (Outcome.UNEXPECTED, "unexpected", "+", "presented, and not wanted"),
)
_HARMLESS = (
    (Outcome.DROPPED, "dropped", "\N{MINUS SIGN}", "a rule leaves it out"),
    (Outcome.UNUSED, "unused", "·", "the loader leaves it out by design"),
    (ALIASED, "aliased", "&", "presented a second time, under a further name"),
    (RENAMED, "renamed", "", "presented under another name"),
    (UNTOUCHED, "untouched", "=", "presented under the name that it has on disk"),
    (Outcome.LOADS, "loads", "", "wanted, and given"),
)

MARKS = {
    str(key): Mark(str(key), label, glyph, meaning, fails)
    for marks, fails in ((_FAILING, True), (_HARMLESS, False))
    for key, label, glyph, meaning in marks
}
"""The worst first: where several meet in a cell, the first of them colours it."""
