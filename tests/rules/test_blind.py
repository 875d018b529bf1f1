"""Rules applied to one name of a kind give what they give applied to each name."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from remapfs.rules.apply import apply_steps
from remapfs.rules.blind import is_blind
from remapfs.rules.model import (
    Alias,
    Drop,
    Match,
    Origin,
    Pattern,
    Prefix,
    Rename,
    Step,
    Substring,
    Suffix,
)
from remapfs.rules.steps import apply_each

ORIGIN = Origin("rules.toml", "rename", 1, 1)
MARK = "70000001"

_SEGMENTS = st.sampled_from(
    ["layers", "w", "w1", "1w", "a7b", "x-1", "{0}", "{", "", "é", "٣", "²", MARK, "70000002", "w12", "1_2"]
) | st.integers(0, 17).map(str)
_NAMES = st.lists(_SEGMENTS, min_size=1, max_size=6).map(".".join)
_BLIND = r"layers w w1 \. \. \.\d+ \.(\d+) (\d+) w\d+ (?:w|\.) ( (?: ) | ? ^ $ [a-z] [wx] \- \.\d+\. \.(\d+)?"
_NOT_YET = ["^(?!w)", r"^(?!layers\.)"]
_SEEING = r"1 2 \d+ ^\d+ \d+$ \.(\d+)?? \d+? \d+(?!x) . .* .+ \w+ [^.]+ \d \d{2} (\.\d+)? (\d) {"
_PIECES = st.sampled_from([*_BLIND.split(), *_BLIND.split(), *_SEEING.split(), *_NOT_YET])
_TARGETS = st.sampled_from(
    [
        "",
        ".",
        "x",
        "1",
        ".1",
        "1.",
        ".5.",
        r"\1",
        r".\1",
        r"\1.",
        r".\1.",
        r".\1.\1.",
        r"x\1",
        r"\g<1>0",
        MARK,
    ]
)


@st.composite
def _patterns(draw: st.DrawFn) -> Pattern:
    kind = draw(st.sampled_from(["match", "match", "prefix", "suffix", "substring"]))
    if kind != "match":
        text = draw(
            st.sampled_from([".", "w", "w1", "layers.", ".layers", "m.", "1", ".1.", "..", "a", "{0}", MARK])
        )
        return Prefix(text) if kind == "prefix" else Suffix(text) if kind == "suffix" else Substring(text)
    source = "".join(draw(st.lists(_PIECES, min_size=1, max_size=5)))
    try:
        return Match(re.compile(source))
    except re.error:
        reject()


@st.composite
def _steps(draw: st.DrawFn, known: list[str] | None = None) -> Step:
    kind = draw(st.sampled_from(["rename", "rename", "rename", "drop", "alias"]))
    if kind == "alias":
        name = draw(_NAMES | st.sampled_from(known) if known else _NAMES)
        _, _, behind = name.partition(".")
        return Alias(draw(st.sampled_from([name, behind or name])), draw(_NAMES), ORIGIN, optional=True)
    pattern = draw(_patterns())
    if kind == "drop":
        return Drop(pattern, ORIGIN, optional=True)
    to = draw(_TARGETS)
    if isinstance(pattern, Match):
        try:
            re.compile(pattern.regex.pattern + "|").sub(to, "")
        except (re.error, IndexError):
            reject()
    return Rename(pattern, to, ORIGIN, optional=True)


@settings(deadline=None, max_examples=400)
@given(st.lists(_NAMES, min_size=1, max_size=12), st.data())
def test_the_result_is_that_of_one_name_at_a_time(names: list[str], data: st.DataObject) -> None:
    """For names with numbers in any place, and rules with digits in any place."""
    steps = data.draw(st.lists(_steps(names), min_size=1, max_size=4))
    assert apply_steps(names, steps) == apply_each(names, steps)


def _blind_steps() -> st.SearchStrategy[Step]:
    return _steps().filter(is_blind)


@settings(deadline=None, max_examples=400)
@given(
    st.lists(_SEGMENTS, min_size=1, max_size=5),
    st.lists(st.integers(0, 120).map(str), min_size=5, max_size=5),
    st.lists(_blind_steps(), min_size=1, max_size=4),
)
def test_blind_rules_see_no_number(segments: list[str], numbers: list[str], steps: list[Step]) -> None:
    """Names that differ only in their slots, with rules that are all taken for blind."""
    one = ".".join(["m", *(part for pair in zip(segments, numbers, strict=False) for part in pair)])
    names = [one, re.sub(r"(?<=\.)\d+(?=\.|$)", "7", one), re.sub(r"(?<=\.)\d+(?=\.|$)", "700", one)]
    assert apply_steps(names, steps) == apply_each(names, steps)


@pytest.mark.parametrize(
    ("source", "blind"),
    [
        (r"^model\.layers\.(\d+)\.", True),
        (r"\.experts\.\d+\.w1\.", True),
        (r"\.(?:self_attn|attn)\.sinks$", True),
        ("[kv]_proj", True),
        (r"layers\.1\.", False),
        (r"layers\.\d\.", False),
        (r"\d+", False),
        (r"layers\.\d+?\.", False),
        (r"layers\.(\d+|x)\.", True),
        (r"layers\.(x|\d+)\.", False),
        (".*", False),
        ("[0-9]+", False),
        ("(?i)layers", False),
        (r"layers\.(?=1)", False),
        (r"w1\d+", False),
        ("^", True),
        ("$", True),
        ("x?", False),
        ("|x", False),
        (r"^(?!model\.)", True),
        (r"^(?!model\.1\.)", False),
        (r"^(?!\d)", False),
        ("^(?!)", False),
        (r"(?!model\.)", False),
    ],
)
def test_only_what_is_proved_is_blind(source: str, *, blind: bool) -> None:
    """A number of a rule must stand where no slot can be."""
    assert is_blind(Drop(Match(re.compile(source)), ORIGIN, optional=True)) is blind


def test_an_alias_of_a_name_that_starts_with_a_number() -> None:
    """A slot becomes the first segment when the prefix before it goes away."""
    steps = (
        Rename(Prefix("model."), "", ORIGIN, optional=False),
        Alias("7.w", "seven", ORIGIN, optional=False),
    )
    found = apply_steps(["model.6.w", "model.7.w"], steps)
    assert found.names == ("6.w", "7.w")
    assert found.aliases == ((1, "seven"),)
    assert found.hits == (2, 1)


def test_a_rule_that_writes_the_stand_in_s_number() -> None:
    """The number that stands for a slot is an ordinary number in a rule."""
    steps = (Rename(Suffix(".w"), f".{MARK}", ORIGIN, optional=False),)
    assert apply_steps(["layers.5.w"], steps).names == (f"layers.5.{MARK}",)
    steps_of_alias = (Alias("w", f"x.{MARK}.y", ORIGIN, optional=False),)
    assert apply_steps(["w"], steps_of_alias).aliases == ((0, f"x.{MARK}.y"),)


def test_an_expression_that_matches_nothing_at_all() -> None:
    """It is replaced between any two characters, so between two digits too."""
    steps = (Rename(Match(re.compile("x?")), "-", ORIGIN, optional=False),)
    assert apply_steps(["a.17"], steps).names == ("-a-.-1-7-",)


def test_aliases_come_in_the_order_of_their_tensors() -> None:
    """Whatever the order of the alias rules, and whether or not the other rules are blind."""
    steps = (
        Alias("b", "b again", ORIGIN, optional=False),
        Alias("a", "a again", ORIGIN, optional=False),
        Alias("a", "a thrice", ORIGIN, optional=False),
    )
    seeing = (*steps, Drop(Substring("9"), ORIGIN, optional=True))
    wanted = ((0, "a again"), (0, "a thrice"), (1, "b again"))
    assert apply_steps(["a", "b"], steps).aliases == wanted
    assert apply_steps(["a", "b"], seeing).aliases == wanted


def test_a_thousand_names_are_worked_out_as_one() -> None:
    """Hits are counted over all of them."""
    names = [f"model.layers.{layer}.mlp.experts.{expert}.w" for layer in range(10) for expert in range(100)]
    pattern = Match(re.compile(r"^model\.layers\.(\d+)\.mlp"))
    steps = (Rename(pattern, r"layers.\1.ffn", ORIGIN, optional=False),)
    found = apply_steps(names, steps)
    assert found == apply_each(names, steps)
    assert found.names[-1] == "layers.9.ffn.experts.99.w"
    assert found.hits == (1000,)
