"""The text that every match of a regular expression contains."""

from __future__ import annotations

import re
import warnings

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from remapfs.rules.literal import required_literal

_ATOMS = r"a b ab 1 . - \. \{ \\ \( \| \x61 \1 \d+ \w \b ^ $ ( (?: (?> ) | [ab] [^a] []a] [^]b] [\]a] [(]"
_OTHERS = "[a|b] [)] ] { } {2} {0,1} {,2} {1,} {} {,} {a} * + ? *? +? ?? ++ ?+ (?=a) (?!a) (?<=a) (?P<n>a)"
_PIECES = st.sampled_from([*_ATOMS.split(), *_OTHERS.split(), "(?i:a)", "(?#", "(?#a)", "\n"])
_TEXTS = st.text("ab1.{}()[]|\\\n-A", max_size=12)


@settings(deadline=None, max_examples=300)
@given(st.lists(_PIECES, max_size=12).map("".join), st.data())
def test_whatever_matches_contains_it(source: str, data: st.DataObject) -> None:
    """For random expressions and texts, and texts made to fit them."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            regex = re.compile(source)
    except re.error:
        reject()
    literal = required_literal(regex)
    if not literal:
        return
    fitting = st.from_regex(regex) if r"\1" not in source else _TEXTS
    for text in (data.draw(_TEXTS), data.draw(fitting), "", "a", "ab", "b1."):
        if regex.search(text):
            assert literal in text


@pytest.mark.parametrize(
    ("source", "literal"),
    [
        ("abc", "abc"),
        (r"^model\.layers\.", "model.layers."),
        (r"\.self_attn\.q_proj\.weight$", ".self_attn.q_proj.weight"),
        (r"^model\.(layers|mtp)\.", "model."),
        (r"[kv]_proj\.[kv]_scale$", "_proj."),
        (r"\.mlp\.experts\.\d+\.gate_proj\.", ".mlp.experts."),
    ],
)
def test_the_longest_certain_text_is_found(source: str, literal: str) -> None:
    """The longest run outside of groups, classes and quantifiers."""
    assert required_literal(re.compile(source)) == literal


@pytest.mark.parametrize(
    ("source", "literal"),
    [
        ("abc?", "ab"),
        ("abc*", "ab"),
        ("abc+", "abc"),
        ("abc{0,3}", "ab"),
        ("abc{,3}", "ab"),
        ("abc{2}", "ab"),
        ("ab{x}", "ab{x}"),
        ("a??bc", "bc"),
        ("a(bc)?d", "a"),
        ("a|b", ""),
        ("(a|b)", ""),
        ("(a|b)cd", "cd"),
        (r"\x61bc", ""),
        ("[]ab]cd", "cd"),
        ("[^]ab]cd", "cd"),
        (r"[\]a]cd", "cd"),
        ("[(]cd", "cd"),
        (r"\\ab", r"\ab"),
        ("(?i)abc", ""),
        ("(?x)a b", ""),
        ("(?!abc)", ""),
        ("", ""),
    ],
)
def test_what_is_not_certain_does_not_count(source: str, literal: str) -> None:
    """A character that may be absent, an alternative, a class, a code, a flag that changes the meaning."""
    assert required_literal(re.compile(source)) == literal


def test_a_comment_proves_nothing() -> None:
    """A bracket in a comment opens no class, so the groups behind it cannot be told by brackets."""
    regex = re.compile("(?#[)((a]|b)c)?")
    assert regex.search("")
    assert required_literal(regex) == ""
