"""The rules language: what a file means."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from remapfs import RemapError, load_rules
from remapfs.rules import load_preset, parse_rules
from remapfs.rules.model import Alias, Drop, Match, Prefix, Rename, Substring, Suffix
from remapfs.rules.steps import rename_text
from rules.rules_text import parse

if TYPE_CHECKING:
    from pathlib import Path

EVERYTHING = r"""
about = "all of it"
unindexed = true

[[rename]]
match = '^model\.(\w+)\.'
to = '\1.'

[[drop]]
suffix = '.k_scale'
optional = true

[[rename]]
prefix = 'a.'
to = ''

[[alias]]
name = 'embed.weight'
as = 'head.weight'

[[hide]]
files = ['consolidated*', '*.bin']

[[json]]
file = 'config.json'
jq = '.x = 1'
if_tensor = '\.w1\.'

[[drop]]
substring = 'rotary'

[[refuse]]
match = 'wkv'
dtypes = ['U8']
because = 'it cannot be'
hint = 'export again'
"""


def test_every_kind_of_rule_is_read() -> None:
    """Kinds, patterns, texts, flags, and the lists that each kind goes to."""
    rules = parse(EVERYTHING)
    assert rules.unindexed
    assert [type(step) for step in rules.steps] == [Rename, Drop, Rename, Alias, Drop]
    first, second, third, fourth, fifth = rules.steps
    assert isinstance(first, Rename)
    assert isinstance(first.pattern, Match)
    assert (first.pattern.regex.pattern, first.to) == (r"^model\.(\w+)\.", r"\1.")
    assert isinstance(second, Drop)
    assert second.pattern == Suffix(".k_scale")
    assert isinstance(third, Rename)
    assert (third.pattern, third.to) == (Prefix("a."), "")
    assert isinstance(fourth, Alias)
    assert (fourth.name, fourth.other) == ("embed.weight", "head.weight")
    assert isinstance(fifth, Drop)
    assert fifth.pattern == Substring("rotary")
    assert [step.optional for step in rules.steps] == [False, True, False, False, False]
    (hide,), (json,), (refuse,) = rules.hide, rules.json, rules.refuse
    assert hide.files == ("consolidated*", "*.bin")
    assert (json.file, json.jq) == ("config.json", ".x = 1")
    assert json.if_tensor is not None
    assert rules.documents == {"config.json"}
    assert (refuse.dtypes, refuse.because, refuse.hint) == (frozenset({"U8"}), "it cannot be", "export again")


def test_a_rule_says_where_it_stands() -> None:
    """By its number among its kind, and the line of its heading."""
    rules = parse(EVERYTHING)
    assert [str(step.origin) for step in rules.steps] == [
        "rename rule 1 in rules.toml (line 5)",
        "drop rule 1 in rules.toml (line 9)",
        "rename rule 2 in rules.toml (line 13)",
        "alias rule 1 in rules.toml (line 17)",
        "drop rule 2 in rules.toml (line 29)",
    ]


def test_order_counts_across_kinds() -> None:
    """Interleaved renames and drops stay in the order of the file."""
    kinds = ["drop", "rename", "rename", "drop", "alias", "rename", "drop", "alias"]
    bodies = {
        "drop": "prefix = 'x'",
        "rename": "prefix = 'x'\nto = 'y'",
        "alias": "name = 'x'\nas = 'y'",
    }
    rules = parse("".join(f"[[{kind}]]\n{bodies[kind]}\n" for kind in kinds))
    assert [step.origin.kind for step in rules.steps] == kinds


@pytest.mark.parametrize("quotes", ["'''", '"""'])
def test_a_heading_inside_a_multi_line_string_is_text(quotes: str) -> None:
    """And the rules around it keep their order and lines."""
    program = f"{quotes}\n[[rename]]\n  [[drop]]\n{quotes}"
    text = (
        "[[drop]]\nprefix = 'a'\n"
        f"[[refuse]]\nmatch = 'z'\nbecause = {program}\n"
        "[[rename]]\nprefix = 'b'\nto = 'c'\n"
        "# ''' and \"\"\" in a comment\n"
        "[[drop]]\nprefix = 'd'\n"
    )
    rules = parse(text)
    assert [(step.origin.kind, step.origin.number, step.origin.line) for step in rules.steps] == [
        ("drop", 1, 1),
        ("rename", 1, 9),
        ("drop", 2, 13),
    ]
    assert rules.refuse[0].because == "[[rename]]\n  [[drop]]\n"


@pytest.mark.parametrize(
    "text",
    [
        "  [[drop]]\nprefix = 'a'\n\t[[ rename ]]\nprefix = 'b'\nto = 'c'\n",
        "[[drop]] # [[rename]]\nprefix = 'a'\n# [[drop]]\n[[rename]]# here\nprefix = 'b'\nto = '[[drop]]'\n",
        "[[drop]]\r\nprefix = 'a'\r\n\r\n[[rename]]\r\nprefix = 'b'\r\nto = 'c'\r\n",
    ],
    ids=["spaces", "comments", "crlf"],
)
def test_headings_may_be_written_as_toml_allows(text: str) -> None:
    """Indented, with spaces inside, with a comment behind, with lines ended as Windows does."""
    assert [step.origin.kind for step in parse(text).steps] == ["drop", "rename"]


def test_the_target_of_literal_text_is_literal() -> None:
    """Where the pattern is no expression, a backslash is one."""
    (rename,) = parse("[[rename]]\nprefix = 'a'\nto = '\\1'\n").steps
    assert rename_text("abc", [rename]) == "\\1bc"


def test_optional_at_the_top_is_the_default() -> None:
    """A rule may say otherwise."""
    text = "optional = true\n[[drop]]\nprefix = 'a'\n[[drop]]\nprefix = 'b'\noptional = false\n"
    assert [step.optional for step in parse(text).steps] == [True, False]


def test_a_preset_comes_before_the_file_s_own_rules() -> None:
    """All kinds of its rules, with their own origins and their own default."""
    preset = load_preset("deepseek-v4")
    rules = parse("preset = 'deepseek-v4'\n[[drop]]\nprefix = 'mtp.'\n[[hide]]\nfiles = ['*.bin']\n")
    assert rules.steps[:-1] == preset.steps
    assert str(rules.steps[-1].origin) == "drop rule 1 in rules.toml (line 2)"
    assert not rules.steps[-1].optional
    assert rules.steps[0].optional
    assert (rules.json, rules.refuse) == (preset.json, preset.refuse)
    assert rules.hide[0].files == ("*.bin",)


def test_no_rules_are_rules() -> None:
    """An empty file changes nothing."""
    rules = parse("")
    assert rules.steps == ()
    assert not rules.unindexed
    assert not rules.hides("model.safetensors")


def test_hide_globs_match_the_path_or_the_base_name() -> None:
    """A glob without a slash finds a file in any directory."""
    rules = parse("[[hide]]\nfiles = ['*.bin', 'original/*', 'a/b.txt']\n")
    hidden = ["x.bin", "deep/er/x.bin", "original/x", "original/deep/x", "a/b.txt"]
    assert all(map(rules.hides, hidden))
    assert not any(map(rules.hides, ["x.bin2", "b.txt", "c/a/b.txt", "x.BIN"]))


def test_a_file_is_named_by_its_base_name(tmp_path: Path) -> None:
    """The origin is short enough for a line of output."""
    path = tmp_path / "mine.toml"
    path.write_text("[[drop]]\nprefix = 'é'\n", encoding="utf-8")
    rules = load_rules(str(path))
    assert rules.name == "mine.toml"
    assert str(rules.steps[0].origin) == "drop rule 1 in mine.toml (line 1)"


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    """Missing, a directory, or not UTF-8."""
    with pytest.raises(RemapError, match=r"cannot read the rules .*none.toml: No such file"):
        load_rules(str(tmp_path / "none.toml"))
    with pytest.raises(RemapError, match="Is a directory"):
        load_rules(str(tmp_path))
    path = tmp_path / "latin.toml"
    path.write_bytes("about = 'é'".encode("latin-1"))
    with pytest.raises(RemapError, match="is not UTF-8 text"):
        load_rules(str(path))


def test_rules_after_rules() -> None:
    """Lists are joined, and one that takes unindexed shards into scope is enough."""
    first = parse_rules("unindexed = true\n[[drop]]\nprefix = 'a'\n", "first.toml")
    second = parse_rules("[[drop]]\nprefix = 'b'\n", "second.toml")
    joined = second.after(first)
    assert joined.name == "second.toml"
    assert joined.unindexed
    assert joined.steps == first.steps + second.steps
