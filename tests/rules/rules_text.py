"""Rules for tests, from TOML text."""

from __future__ import annotations

import pytest

from remapfs import RemapError, Rules
from remapfs.rules import parse_rules

FILE = "rules.toml"


def parse(text: str) -> Rules:
    """Read rules as if they stood in rules.toml."""
    return parse_rules(text, FILE)


def refusal(text: str) -> tuple[str, str]:
    """Give message and hint of the refusal of a text."""
    with pytest.raises(RemapError) as caught:
        parse(text)
    return caught.value.message, caught.value.hint
