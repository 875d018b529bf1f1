"""The rules language: every mistake is told with its place and what to do."""

from __future__ import annotations

import pytest

from remapfs import presets
from rules.rules_text import refusal

_PRESET = "it takes a name, a table such as { name = 'strip-prefix', prefix = 'model.' }, or a list of them"
DROP = "drop rule 1 in rules.toml (line 1)"


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("[[renmae]]\nprefix = 'a'\n", "rules.toml: unknown key 'renmae'", "did you mean 'rename'?"),
        ("presets = 'x'\n", "rules.toml: unknown key 'presets'", "did you mean 'preset'?"),
        (
            "zzz = 1\n",
            "rules.toml: unknown key 'zzz'",
            (
                "it takes about, alias, drop, extends, hide, json, optional, parameters, preset, refuse, "
                "rename, unindexed, vllm"
            ),
        ),
        (
            "[[rename]]\nprefixx = 'a'\nto = 'b'\n",
            "rename rule 1 in rules.toml (line 1): unknown key 'prefixx'",
            "did you mean 'prefix'?",
        ),
        (
            "[[drop]]\nprefix = 'a'\nto = 'b'\n",
            "drop rule 1 in rules.toml (line 1): unknown key 'to'",
            "it takes match, optional, prefix, substring, suffix",
        ),
        (
            "[[refuse]]\nmatch = 'a'\nbecause = 'b'\noptional = true\n",
            "refuse rule 1 in rules.toml (line 1): unknown key 'optional'",
            "it takes because, dtypes, hint, match",
        ),
    ],
)
def test_unknown_keys(text: str, message: str, hint: str) -> None:
    """The nearest known one is suggested, or all are listed."""
    assert refusal(text) == (message, hint)


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        (
            "[[drop]]\nprefix = 'a'\nsuffix = 'b'\n",
            f"{DROP} needs one of match, prefix, suffix, substring; it has prefix and suffix",
            "keep one of them",
        ),
        (
            "[[drop]]\n",
            "drop rule 1 in rules.toml (line 1) needs one of match, prefix, suffix, substring; it has none",
            "keep one of them",
        ),
        (
            "[[rename]]\nprefix = 'a'\n",
            "rename rule 1 in rules.toml (line 1): 'to' is missing",
            "write  to = '…'",
        ),
        (
            "[[rename]]\nprefix = 'a'\nto = 3\n",
            "rename rule 1 in rules.toml (line 1): 'to' is 3, not text",
            "write  to = '…'",
        ),
        (
            "[[rename]]\nprefix = ''\nto = 'b'\n",
            "rename rule 1 in rules.toml (line 1): 'prefix' is '', not text",
            "write  prefix = '…'",
        ),
        (
            "[[alias]]\nname = 'a'\n",
            "alias rule 1 in rules.toml (line 1): 'as' is missing",
            "write  as = '…'",
        ),
        (
            "[[alias]]\nas = 'a'\n",
            "alias rule 1 in rules.toml (line 1): 'name' is missing",
            "write  name = '…'",
        ),
        (
            "[[hide]]\n",
            "hide rule 1 in rules.toml (line 1): 'files' is not a list of texts",
            "write  files = ['…']",
        ),
        (
            "[[hide]]\nfiles = []\n",
            "hide rule 1 in rules.toml (line 1): 'files' is not a list of texts",
            "write  files = ['…']",
        ),
        (
            "[[hide]]\nfiles = ['a', 1]\n",
            "hide rule 1 in rules.toml (line 1): 'files' is not a list of texts",
            "write  files = ['…']",
        ),
        (
            "[[json]]\nfile = 'config.json'\n",
            "json rule 1 in rules.toml (line 1): 'jq' is missing",
            "write  jq = '…'",
        ),
        (
            "[[json]]\njq = '.'\n",
            "json rule 1 in rules.toml (line 1): 'file' is missing",
            "write  file = '…'",
        ),
        (
            "[[refuse]]\nmatch = 'a'\n",
            "refuse rule 1 in rules.toml (line 1): 'because' is missing",
            "write  because = '…'",
        ),
        (
            "[[refuse]]\nmatch = 'a'\nbecause = 'b'\ndtypes = 'U8'\n",
            "refuse rule 1 in rules.toml (line 1): 'dtypes' is not a list of texts",
            "write  dtypes = ['…']",
        ),
        (
            "[[drop]]\nprefix = 'a'\noptional = 'yes'\n",
            "drop rule 1 in rules.toml (line 1): optional is not true or false",
            "write  optional = true",
        ),
        ("optional = 1\n", "rules.toml: 'optional' is 1", "it takes true or false"),
        ("unindexed = 'x'\n", "rules.toml: 'unindexed' is 'x'", "it takes true or false"),
        ("preset = true\n", "rules.toml: 'preset' is True", _PRESET),
        ("preset = [{ prefix = 'a.' }]\n", "rules.toml: 'preset' is [{'prefix': 'a.'}]", _PRESET),
        (
            "preset = { name = 'strip-prefix', prefix = 1 }\n",
            "rules.toml: 'preset' is {'name': 'strip-prefix', 'prefix': 1}",
            _PRESET,
        ),
        ("extends = 1\n", "rules.toml: 'extends' is 1", "it takes a text, or a list of texts"),
    ],
)
def test_what_is_missing_or_of_the_wrong_kind(text: str, message: str, hint: str) -> None:
    """One pattern a rule, its texts, its flags."""
    assert refusal(text) == (message, hint)


@pytest.mark.parametrize("rule", ["[[drop]]\nmatch", "[[json]]\nfile = 'f'\njq = '.'\nif_tensor"])
def test_an_expression_that_is_none(rule: str) -> None:
    """With what Python says of it, and the literal patterns to use instead."""
    message, hint = refusal(f"{rule} = '('\n")
    assert "(line 1): '(' is not a regular expression: missing ), unterminated subpattern" in message
    assert hint == "for literal text use prefix, suffix or substring"


@pytest.mark.parametrize("to", [r"\1", r"\g<name>", r"\q", r"x\g<2>"])
def test_a_target_that_does_not_fit_its_expression(to: str) -> None:
    """A group that is not there, or an escape that means nothing; found before any name is looked at."""
    message, hint = refusal(f"[[rename]]\nmatch = 'a'\nto = '{to}'\n")
    assert message.startswith("rename rule 1 in rules.toml (line 1): its 'to' does not fit its 'match': ")
    assert hint == "\\1 is the first group; a backslash is \\\\"


@pytest.mark.parametrize(
    "text",
    [
        "drop = [{prefix = 'a'}]\n",
        "drop = [{prefix = 'a'}, {prefix = 'b'}]\n[[rename]]\nprefix='a'\nto='b'\n",
    ],
)
def test_inline_rules_have_no_place_in_the_order(text: str) -> None:
    """Each rule has its heading."""
    assert refusal(text) == (
        "rules.toml: drop rules are written inline",
        "write  [[drop]]  above each rule: order counts",
    )


@pytest.mark.parametrize("text", ["[rename]\nprefix = 'a'\nto = 'b'\n", "rename = 'x'\n", "rename = [1]\n"])
def test_rules_are_lists_of_tables(text: str) -> None:
    """A single bracket is a common slip."""
    assert refusal(text) == (
        "rules.toml: 'rename' is not a list of tables",
        "write  [[rename]]  above each rule",
    )


def test_text_that_is_not_toml() -> None:
    """The parser's sentence with its line, and the most common cause."""
    message, hint = refusal('[[drop]]\nmatch = "\\.weight"\n')
    assert message.startswith("rules.toml: Unescaped '\\' in a string (at line 2")
    assert "single quotes" in hint


def test_a_program_that_jq_does_not_accept() -> None:
    """Found before the checkpoint is read."""
    message, hint = refusal("[[json]]\nfile = 'config.json'\njq = '.a ='\n")
    assert message.startswith("json rule 1 in rules.toml (line 1): jq does not accept its program: ")
    assert hint == "try it with the jq command"


def test_a_preset_that_does_not_exist() -> None:
    """With the nearest name, or all of them."""
    assert refusal("preset = 'deepseek-v5'\n") == (
        "there is no preset 'deepseek-v5'",
        "did you mean 'deepseek-v4'?",
    )
    listed = f"the presets are: {', '.join(presets())}"
    assert refusal("preset = 'qqqq'\n") == ("there is no preset 'qqqq'", listed)


def test_a_later_rule_is_named_by_its_own_place() -> None:
    """Numbers count within a kind, lines in the file."""
    text = "[[drop]]\nprefix = 'a'\n\n[[rename]]\nprefix = 'b'\nto = 'c'\n\n[[drop]]\nmatch = '['\n"
    message, _ = refusal(text)
    assert message.startswith("drop rule 2 in rules.toml (line 8): '[' is not a regular expression")
