"""The rules file that a suggestion writes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from remapfs.rules import parse_rules
from remapfs.rules.apply import apply_steps
from remapfs.rules.blind import is_blind
from remapfs.suggest import Named, suggest, toml
from suggest.models import deepseek_v4, llama, renamed, sources, wanted

_PRINT = """
from remapfs.suggest import suggest, toml
from suggest.models import deepseek_v4, llama, sources, wanted
for both in (deepseek_v4("D"), llama()):
    print(toml(suggest(sources(both), wanted(both))))
"""


def test_each_rule_says_how_many_it_hits_and_gives_an_example() -> None:
    """The number is that of a mount, and the example what the rule itself does."""
    both = llama()
    suggestion = suggest(sources(both), wanted(both))
    lines = toml(suggestion).splitlines()
    hits = apply_steps([each.before for each in both], [rule.step for rule in suggestion.rules]).hits
    assert tuple(rule.tensors for rule in suggestion.rules) == hits
    assert all(hits)
    start = lines.index('prefix = "lm_head."')
    assert lines[start - 2 : start + 2] == [
        "# 1 tensor: lm_head.weight → output.weight",
        "[[rename]]",
        'prefix = "lm_head."',
        'to     = "output."',
    ]


def test_rules_are_blind_to_numbers() -> None:
    """So that they cost no more for 61 layers than for three."""
    both = deepseek_v4("A")
    for rule in suggest(sources(both), wanted(both)).rules:
        assert is_blind(rule.step), rule
    for rule in suggest(wanted(both), sources(both)).rules:
        assert is_blind(rule.step), rule


def test_the_head_says_what_was_compared() -> None:
    """How much of it was mapped, and what was special."""
    both = llama()
    first = toml(suggest(sources(both), [Named(each.after, None, None) for each in both])).splitlines()[:2]
    assert first[0].startswith(
        "# Written by remapfs suggest: 12 rules, after which 30 of 30 tensors have the"
    )
    assert first[1] == "# The reference is only names: nothing could be told by shape or dtype."


def test_the_text_is_the_same_in_every_process() -> None:
    """Whatever the seed of Python's hashes."""
    paths = os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])
    texts = {
        subprocess.run(
            [sys.executable, "-c", _PRINT],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": paths},
            stdout=subprocess.PIPE,
            check=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(texts) == 1
    assert "[[rename]]" in texts.pop()


def test_names_with_odd_characters_are_quoted() -> None:
    """Quotes, backslashes, braces, signs of regular expressions and control characters."""
    odd = ['a"b', "a'b", "a\\b", "a{0}b", "a+b*", "a\tb", "é-ü", "w1'x"]
    source = [
        Named(f"{word}.layers.{n}.weight", "F32", (i + 1,)) for i, word in enumerate(odd) for n in (0, 1)
    ]
    reference = [Named(f"new{name}", dtype, shape) for name, dtype, shape in source]
    suggestion = suggest(source, reference)
    assert parse_rules(toml(suggestion), "suggested.toml").steps
    assert renamed(suggestion, [name for name, _, _ in source]) == [name for name, _, _ in reference]
    assert suggestion.complete
