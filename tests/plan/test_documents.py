"""JSON files that are rewritten: what is not meant to change keeps its form."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remapfs import RemapError
from remapfs.plan import Kind
from remapfs.plan.documents import applies_to, apply_jq, decode, encode, rename_modules
from remapfs.plan.modules import ModuleNames
from remapfs.rules import parse_rules

if TYPE_CHECKING:
    import re

    from remapfs.rules.model import Json


def rule(program: str, condition: str = "") -> Json:
    """Make a json rule for config.json."""
    text = f"[[json]]\nfile = 'config.json'\njq = '''{program}'''\n"
    return parse_rules(text + (f"if_tensor = '{condition}'\n" if condition else ""), "rules.toml").json[0]


def rewrite(text: str, program: str) -> str:
    """Apply a jq program to the text of a config."""
    raw = text.encode()
    document, _ = apply_jq("config.json", decode("config.json", raw), [rule(program)], lambda _: True)
    return encode(document, raw).decode()


@pytest.mark.parametrize(
    "number",
    [
        "1e-06",
        "1e-05",
        "0.1",
        "10000.0",
        "1",
        "-0.0",
        "123456789012345678901",
        "9007199254740993",
        "1e+22",
        "-7",
    ],
)
def test_numbers_are_written_as_they_were(number: str) -> None:
    """Although jq knows only doubles: floats stay floats, and large integers keep their digits."""
    before = f'{{"a": {{"x": [{number}]}}}}'
    assert rewrite(before, ".b = true") == f'{{"a": {{"x": [{number}]}}, "b": true}}'


@pytest.mark.parametrize("number", ["Infinity", "-Infinity", "NaN", "1" + "0" * 400])
def test_numbers_that_jq_does_not_have_are_kept(number: str) -> None:
    """Configs of state-space models have Infinity, which jq would make a number and NaN null."""
    assert rewrite(f'{{"a": [0.0, {number}]}}', ".b = 1") == f'{{"a": [0.0, {number}], "b": 1}}'


def test_a_number_that_the_program_changes_is_the_program_s() -> None:
    """Only what passed through is taken from the original."""
    assert json.loads(rewrite('{"a": 1.5, "b": 2.0}', ".a += 1")) == {"a": 2.5, "b": 2.0}


def test_keys_keep_their_order() -> None:
    """New ones come last."""
    assert rewrite('{"z": 1, "a": 2, "m": {"y": 1, "b": 2}}', ".c = 3") == (
        '{"z": 1, "a": 2, "m": {"y": 1, "b": 2}, "c": 3}'
    )


@pytest.mark.parametrize(
    "text",
    [
        '{\n  "a": 1,\n  "b": [\n    1\n  ]\n}\n',
        '{\n    "a": 1\n}',
        '{\n\t"a": 1\n}\n',
        '{"a": 1, "b": 2}\n',
        '{"a":1,"b":[1,2]}',
        '{"a": "é"}',
        '{"a": "\\u00e9"}',
        '[\n "a"\n]',
    ],
    ids=["two", "four", "tab", "one-line", "compact", "utf-8", "ascii", "list"],
)
def test_the_form_of_the_text_is_kept(text: str) -> None:
    """Indentation, separators, the final newline, and whether it is ASCII."""
    assert encode(decode("config.json", text.encode()), text.encode()).decode() == text


def test_a_program_gives_exactly_one_result() -> None:
    """None or two are refused, by the name of the rule."""
    for program, count in (("empty", 0), ("1, 2", 2)):
        with pytest.raises(RemapError) as caught:
            rewrite("{}", program)
        assert caught.value.message == (
            f"json rule 1 in rules.toml (line 1) gave {count} results for config.json"
        )


def test_a_program_that_fails_is_named() -> None:
    """With jq's own sentence."""
    with pytest.raises(
        RemapError, match=r"json rule 1 in rules.toml \(line 1\) failed on config.json: no way"
    ):
        rewrite("{}", 'error("no way")')


def test_programs_run_in_order_and_hits_say_which_changed_something() -> None:
    """One whose condition no tensor meets does not run."""
    asked: list[str] = []

    def has_tensor(regex: re.Pattern[str]) -> bool:
        asked.append(regex.pattern)
        return regex.pattern == "yes"

    rules = [rule(".a = 1"), rule(".a += 1", "yes"), rule(".a = 100", "no"), rule(".")]
    assert apply_jq("config.json", {}, rules, has_tensor) == ({"a": 2}, [1, 1, 0, 0])
    assert asked == ["yes", "no"]


def test_text_that_is_not_json_is_refused() -> None:
    """By the name of the file."""
    with pytest.raises(RemapError, match=r"^deep/config.json is not JSON: "):
        decode("deep/config.json", b"{")
    with pytest.raises(RemapError, match=r"^config.json is not JSON: "):
        decode("config.json", b"\xff{}")


def test_module_names_follow_and_findings_say_what_did_not() -> None:
    """Undecided ones are left, expanded ones are told."""
    document = {
        "quantization_config": {"ignore": ["m.a", "re:x", "gone*", "m.c"], "other": "m.a"},
        "m.a": "m.a",
    }
    modules = ModuleNames(["m.a.x", "m.c.x", "m.c.y"], ["n.x", "p.x", "q.y"], [])
    renamed, findings = rename_modules("config.json", document, modules)
    assert renamed == {
        "quantization_config": {"ignore": ["n", "re:x", "gone*", "p", "q"], "other": "m.a"},
        "m.a": "m.a",
    }
    assert [(finding.kind, finding.text) for finding in findings] == [
        (Kind.LEFT, "module pattern 're:x' is a regular expression: it stays as it is"),
        (Kind.LEFT, "module pattern 'gone*' selects no tensor: it stays as it is"),
        (Kind.HEALED, "module pattern 'm.c' became 2 names: p, q"),
    ]


@pytest.mark.parametrize(
    ("folder", "path", "applies"),
    [
        ("", "model.safetensors", True),
        ("", "deep/model.safetensors", True),
        ("text", "text/model.safetensors", True),
        ("text", "text/deep/model.safetensors", True),
        ("text", "text2/model.safetensors", False),
        ("text", "model.safetensors", False),
    ],
)
def test_a_config_speaks_of_what_is_below_its_folder(folder: str, path: str, *, applies: bool) -> None:
    """A checkpoint may hold several models."""
    assert applies_to(folder, path) is applies


_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text("aé\n"),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("abé", max_size=2), inner, max_size=3)
    ),
    max_leaves=10,
)


@settings(deadline=None, max_examples=200)
@given(st.dictionaries(st.text("xyz", max_size=2), _JSON, max_size=4), st.sampled_from([None, 2, 4, "\t"]))
def test_a_program_that_changes_nothing_changes_no_byte(document: object, indent: int | str | None) -> None:
    """For any document, in any of the usual forms."""
    text = json.dumps(document, indent=indent, ensure_ascii=False)
    assert rewrite(text, ".") == text or document == {}
