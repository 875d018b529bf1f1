"""Parameters of rules, and rules that start from others."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remapfs import RemapError, load_preset, load_rules
from remapfs.rules import file_parameters, parse_rules, preset_parameters
from remapfs.rules.apply import apply_steps

if TYPE_CHECKING:
    from pathlib import Path

    from remapfs import Rules

DECLARED = "[parameters.x]\nabout = 'what it is'\n"


def names(rules: Rules, *before: str) -> list[str | None]:
    """Apply rules to names."""
    return list(apply_steps(before, rules.steps).names)


@given(value=st.text(st.characters(codec="utf-8", exclude_categories=["C"]), min_size=1))
def test_a_value_means_itself_in_every_pattern(value: str) -> None:
    """No character of a value is special: not in an expression, not in what replaces a match."""
    text = DECLARED + "[[rename]]\n{pattern} = '^?{{{{x}}}}'\nto = '[{{{{x}}}}]'\n".replace("^?", "")
    for pattern in ("match", "prefix", "suffix", "substring"):
        rules = parse_rules(text.format(pattern=pattern), "r.toml", {"x": value})
        assert names(rules, value) == [f"[{value}]"]


def test_a_value_is_a_string_in_jq() -> None:
    """Quotes in it do no harm."""
    text = DECLARED + "[[json]]\nfile = 'config.json'\njq = '.a = {{x}}'\n"
    assert parse_rules(text, "r.toml", {"x": 'say "so"'}).json[0].jq == r'.a = "say \"so\""'


def test_a_default_stands_in_for_a_value() -> None:
    """Whoever gives one overrides it."""
    text = "[parameters.x]\ndefault = 'a.'\n[[rename]]\nprefix = '{{x}}'\nto = ''\n"
    assert names(parse_rules(text, "r.toml"), "a.b", "c.d") == ["b", "c.d"]
    assert names(parse_rules(text, "r.toml", {"x": "c."}), "a.b", "c.d") == ["a.b", "d"]


def test_a_value_ends_as_its_parameter_says() -> None:
    """What it ends with is added once."""
    text = "[parameters.x]\nends = '.'\n[[rename]]\nprefix = '{{x}}'\nto = ''\n"
    for value in ("a", "a."):
        assert names(parse_rules(text, "r.toml", {"x": value}), "a.b", "ab") == ["b", "ab"]


def test_an_empty_value_needs_an_empty_default() -> None:
    """It would make a rule that does nothing, or that cannot be."""
    text = "[parameters.x]\ndefault = ''\n[[rename]]\nprefix = 'a.'\nto = '{{x}}'\n"
    assert names(parse_rules(text, "r.toml"), "a.b") == ["b"]
    with pytest.raises(RemapError, match=r"^strip-prefix.toml: the parameter 'prefix' is empty \(what names"):
        load_preset("strip-prefix", {"prefix": ""})


def test_presets_of_a_file_come_in_their_order_and_before_its_rules() -> None:
    """Each is applied to the result of the one before."""
    presets = "preset = ['strip-prefix', 'add-prefix']\n[parameters]\nprefix = 'a.'\n"
    text = presets + "[[rename]]\nprefix = 'a.'\nto = 'z.'\n"
    assert names(parse_rules(text, "r.toml"), "a.x", "b.x") == ["z.x", "z.b.x"]


def test_a_value_for_one_preset_alone() -> None:
    """In a table with its name; or after its name and a dot, which wins over a value for all."""
    swapped = "preset = [{ name = 'strip-prefix', prefix = 'a.' }, { name = 'add-prefix', prefix = 'b.' }]\n"
    assert names(parse_rules(swapped, "r.toml"), "a.x", "y") == ["b.x", "b.y"]
    rules = parse_rules(
        "preset = ['strip-prefix', 'add-prefix']\n", "r.toml", {"prefix": "a.", "add-prefix.prefix": "b."}
    )
    assert names(rules, "a.x", "y") == ["b.x", "b.y"]


def test_one_preset_twice_with_two_values() -> None:
    """Each time with its own."""
    twice = "preset = [{ name = 'strip-prefix', prefix = 'a' }, { name = 'strip-prefix', prefix = 'b' }]\n"
    assert names(parse_rules(twice, "r.toml"), "a.b.x", "b.y", "c.z") == ["x", "y", "c.z"]


def test_a_value_passes_to_what_a_file_starts_from(tmp_path: Path) -> None:
    """If the file does not give it itself: one declared there, its default, or one that it does not name."""
    preset = "preset = 'strip-prefix'\n"
    assert names(parse_rules(preset, "r.toml", {"prefix": "a."}), "a.x") == ["x"]
    declared = preset + "[parameters.prefix]\ndefault = 'a.'\n"
    assert names(parse_rules(declared, "r.toml"), "a.x", "b.x") == ["x", "b.x"]
    assert names(parse_rules(declared, "r.toml", {"prefix": "b."}), "a.x", "b.x") == ["a.x", "x"]
    (tmp_path / "base.toml").write_text(preset)
    (tmp_path / "top.toml").write_text("extends = 'base.toml'\n")
    top = str(tmp_path / "top.toml")
    assert names(load_rules(top, {"prefix": "a."}), "a.x") == ["x"]
    assert file_parameters(top) == {"prefix", "strip-prefix.prefix"}


def test_what_a_file_gives_cannot_be_given_again(tmp_path: Path) -> None:
    """So it is not among the names that the file takes; what it declares is."""
    (tmp_path / "fixed.toml").write_text("preset = 'strip-prefix'\n[parameters]\nprefix = 'a.'\n")
    (tmp_path / "alone.toml").write_text("preset = { name = 'strip-prefix', prefix = 'a.' }\n")
    (tmp_path / "open.toml").write_text(DECLARED + "[[drop]]\nprefix = '{{x}}'\n")
    taken = [file_parameters(str(tmp_path / f"{name}.toml")) for name in ("fixed", "alone", "open")]
    assert taken == [set(), set(), {"x"}]


def test_extended_files_come_first_and_are_found_beside_the_file(tmp_path: Path) -> None:
    """A base may extend another, and takes its parameters from the file that extends it."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/base.toml").write_text(DECLARED + "[[rename]]\nprefix = '{{x}}'\nto = 'b.'\n")
    (tmp_path / "mid.toml").write_text(
        "extends = 'sub/base.toml'\n[parameters]\nx = 'a.'\n[[rename]]\nprefix = 'b.'\nto = 'c.'\n"
    )
    (tmp_path / "top.toml").write_text("extends = ['mid.toml']\n[[rename]]\nprefix = 'c.'\nto = 'd.'\n")
    assert names(load_rules(str(tmp_path / "top.toml")), "a.x") == ["d.x"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("parameters = 1\n", "r.toml: 'parameters' is not a table of texts"),
        ("[parameters]\nx = 1\n", "r.toml: 'parameters' is not a table of texts"),
        ("[parameters.x]\nabuot = 'y'\n", "r.toml: parameter 'x' has abuot = 'y'"),
        ("[parameters]\nx = 'y'\n", "r.toml: no rules have a parameter 'x'"),
        ("preset = [1]\n", "r.toml: 'preset' is [1]"),
        ("preset = 'strip-prefix'\n[parameters]\nprefx = 'a'\n", "r.toml: no rules have a parameter 'prefx'"),
        (
            "preset = { name = 'strip-prefix', prefx = 'a' }\n",
            "r.toml: preset 'strip-prefix': no rules have a parameter 'prefx'",
        ),
        (
            "[parameters.x]\ndefault = 'y'\n[[drop]]\nprefix = 'a'\n",
            "r.toml: the parameter 'x' is declared, and no rule uses it",
        ),
        ("extends = 'a.toml'\n", "r.toml: extends 'a.toml', and is not a file itself"),
        (DECLARED, "r.toml needs the parameter 'x' (what it is)"),
    ],
)
def test_what_is_wrong_is_named(text: str, message: str) -> None:
    """With what to write instead."""
    with pytest.raises(RemapError) as caught:
        parse_rules(text, "r.toml")
    assert caught.value.message == message
    assert caught.value.hint


def test_a_misspelt_name_has_its_nearest() -> None:
    """In a rule, in a value, and in a declaration that no rule uses."""
    drop = "[[drop]]\nprefix = '{{start}}'\n"
    for text, values in (
        ("[parameters.strat]\n" + drop, {"strat": "a"}),
        ("preset = 'strip-prefix'\n[parameters]\nprefx = 'a.'\n", {}),
        ("preset = { name = 'strip-prefix', prefx = 'a.' }\n", {}),
        ("[parameters.x]\nabuot = 'y'\n", {}),
    ):
        with pytest.raises(RemapError) as caught:
            parse_rules(text, "r.toml", values)
        assert caught.value.hint.startswith("did you mean '")


def test_a_circle_is_named(tmp_path: Path) -> None:
    """All files of it, in order."""
    for one, other in (("a", "b"), ("b", "c"), ("c", "b")):
        (tmp_path / f"{one}.toml").write_text(f"extends = '{other}.toml'\n")
    with pytest.raises(RemapError, match=re.escape("in a circle: b.toml → c.toml → b.toml")):
        load_rules(str(tmp_path / "a.toml"))
    with pytest.raises(RemapError, match="in a circle"):
        file_parameters(str(tmp_path / "a.toml"))


def test_the_parameters_of_a_preset_can_be_listed() -> None:
    """With what each is for."""
    (parameter,) = preset_parameters("strip-prefix").values()
    assert parameter.about.startswith("what names begin with")
    assert preset_parameters("deepseek-v4") == {}


def test_a_preset_with_a_parameter_needs_its_value() -> None:
    """The message says how it is given."""
    with pytest.raises(RemapError) as caught:
        load_preset("add-prefix")
    assert "--set prefix=VALUE" in caught.value.hint
