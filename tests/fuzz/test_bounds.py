"""Rules that would fill the memory are refused, with the rule that does it."""

from __future__ import annotations

import pytest

from remapfs.errors import RemapError
from remapfs.rules.apply import apply_steps
from remapfs.rules.language import parse_rules

NAMES = ("model.layers.0.a", "model.layers.1.a", "a")


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ("[[rename]]\nsubstring = 'a'\nto = 'aa'\n", r"rename rule 13 .* makes a name of 16,405 characters"),
        (
            "[[rename]]\nmatch = '^(.+)$'\nto = '\\1\\1'\n",
            r"rename rule 10 .* makes a name of 16,384 characters",
        ),
        ("[[alias]]\nname = 'a'\nas = 'a'\n", r"alias rule \d+ .* finds its name 16,384 times"),
    ],
)
def test_names_that_double_are_refused(rules: str, message: str) -> None:
    """Long before 60 such rules would have filled any memory."""
    steps = parse_rules("optional = true\n" + rules * 60, "rules.toml").steps
    with pytest.raises(RemapError, match=message):
        apply_steps(NAMES, steps)
