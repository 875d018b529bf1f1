"""What is refused, or warned of, once the new names are known."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from plan.planning import findings, plan, refusal, write

if TYPE_CHECKING:
    from pathlib import Path

ONE = "model.safetensors"
RULE = "rename rule 1 in rules.toml (line 1)"


def rename(prefix: str, to: str) -> str:
    """Write one rule."""
    return f"[[rename]]\nprefix = '{prefix}'\nto = '{to}'\n"


def test_a_doubled_segment_is_warned_of(tmp_path: Path) -> None:
    """A prefix that was there already; numbers that repeat and what was doubled before are no mistake."""
    write(tmp_path, {ONE: {"text_model.a.w": "U8", "x.x.w": "U8", "l.1.w": "U8"}})
    made = plan(tmp_path, rename("text", "text_model.text") + rename("x", "longer.x"))
    assert findings(made) == [
        (
            "warned",
            ONE,
            "a rule doubled a part of text_model.text_model.a.w; was this checkpoint already renamed?",
        )
    ]
    assert findings(plan(tmp_path, rename("l.1", "l.1.1"))) == []


@pytest.mark.parametrize("dtype", ["U8", "F8_E4M3", "I8"])
def test_dropped_scales_of_kept_packed_weights_are_warned_of(tmp_path: Path, dtype: str) -> None:
    """No loader can read such weights."""
    write(tmp_path, {ONE: {"a.weight": dtype, "a.weight_scale": "F32", "b.weight": "F32", "b.scale": "F32"}})
    made = plan(tmp_path, "[[drop]]\nsubstring = 'scale'\n")
    assert findings(made) == [
        (
            "warned",
            ONE,
            "scales were dropped but the quantised weights stay, which no loader can read: a.weight",
        )
    ]


def test_scales_dropped_with_their_weights_are_no_mistake(tmp_path: Path) -> None:
    """Nor those of weights that need none."""
    write(tmp_path, {ONE: {"a.weight": "U8", "a.weight_scale": "F32", "k": "BF16", "k.k_scale": "F32"}})
    assert findings(plan(tmp_path, "[[drop]]\nprefix = 'a.'\n[[drop]]\nsuffix = 'k_scale'\n")) == []


@pytest.mark.parametrize(
    ("to", "what"), [("", "an empty name"), ("__metadata__", "'__metadata__', which is reserved")]
)
def test_names_that_no_tensor_may_have(tmp_path: Path, to: str, what: str) -> None:
    """By the rule that made them."""
    write(tmp_path, {ONE: {"a": "U8", "b": "U8"}})
    assert refusal(tmp_path, rename("a", to)) == (
        f"{RULE} gives 'a' in {ONE} {what}",
        "give it another name",
    )


def test_an_alias_may_not_be_reserved_either(tmp_path: Path) -> None:
    """The alias rule is named."""
    write(tmp_path, {ONE: {"a": "U8"}})
    message, _ = refusal(tmp_path, "[[alias]]\nname = 'a'\nas = '__metadata__'\n")
    assert (
        message == f"alias rule 1 in rules.toml (line 1) gives 'a' in {ONE} '__metadata__', which is reserved"
    )


@pytest.mark.parametrize("indexed", [True, False])
def test_two_tensors_may_not_have_one_name(tmp_path: Path, *, indexed: bool) -> None:
    """Also in two shards, with the rule that made it."""
    write(tmp_path, {"1.safetensors": {"a.x": "U8"}, "2.safetensors": {"bb.x": "U8"}}, indexed=indexed)
    message, hint = refusal(tmp_path, rename("bb", "a"))
    assert message == (
        "two tensors would both be named 'a.x':\na.x    in 1.safetensors\nbb.x   in 2.safetensors"
    )
    assert hint == f"{RULE} made the second; was this checkpoint already renamed?"


def test_two_tensors_of_one_shard_by_two_rules(tmp_path: Path) -> None:
    """Both are named."""
    write(tmp_path, {ONE: {"a": "U8", "b": "U8"}})
    _, hint = refusal(tmp_path, rename("a", "c") + rename("b", "c"))
    assert hint == (
        f"{RULE} made the first and rename rule 2 in rules.toml (line 4) made the second; "
        "was this checkpoint already renamed?"
    )


def test_names_may_change_places(tmp_path: Path) -> None:
    """Only the outcome counts."""
    write(tmp_path, {ONE: {"a": "U8", "b": "U8"}})
    made = plan(tmp_path, rename("a", "t") + rename("b", "a") + rename("t", "b"))
    assert made.shards[0].names == ("b", "a")


def test_a_name_in_two_files_without_an_index_is_warned_of(tmp_path: Path) -> None:
    """Copies of a checkpoint side by side are the reader's choice; the rules apply to both."""
    write(tmp_path, {"1.safetensors": {"a": "U8"}, "2.safetensors": {"a": "U8"}})
    assert findings(plan(tmp_path, rename("a", "b"))) == [
        ("warned", ".", "1 names stand in more than one file, with no index to choose: b")
    ]


def test_the_same_name_in_two_folders_is_no_collision(tmp_path: Path) -> None:
    """Each folder is a namespace of its own."""
    write(tmp_path, {"text/m.safetensors": {"a": "U8"}, "vae/m.safetensors": {"a": "U8"}})
    assert findings(plan(tmp_path, rename("a", "b"))) == []


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (rename("z", "y"), f"{RULE} matches no tensor"),
        ("[[drop]]\nprefix = 'z'\n", "drop rule 1 in rules.toml (line 1) matches no tensor"),
        (
            "[[alias]]\nname = 'z'\nas = 'y'\n",
            "alias rule 1 in rules.toml (line 1) finds no tensor called 'z'",
        ),
        ("[[hide]]\nfiles = ['*.bin']\n", "hide rule 1 in rules.toml (line 1) matches no file: *.bin"),
        (
            "[[json]]\nfile = 'none.json'\njq = '.'\n",
            "json rule 1 in rules.toml (line 1): there is no none.json",
        ),
    ],
    ids=["rename", "drop", "alias", "hide", "json"],
)
def test_a_rule_that_matches_nothing_is_refused(tmp_path: Path, rule: str, message: str) -> None:
    """Unless it says that it is optional."""
    write(tmp_path, {ONE: {"a": "U8"}})
    found, hint = refusal(tmp_path, rule)
    assert found == message
    assert "optional = true" in hint
    assert plan(tmp_path, rule + "optional = true\n").findings == ()


def test_what_a_reader_cannot_load_is_refused_or_with_force_warned_of(tmp_path: Path) -> None:
    """By pattern, with the number of tensors; a dtype narrows it."""
    write(tmp_path, {ONE: {"l.0.a": "U8", "l.1.a": "U8", "l.2.a": "BF16"}})
    rule = "[[refuse]]\nmatch = '\\.a$'\ndtypes = ['U8']\nbecause = 'it is so'\nhint = 'export again'\n"
    assert refusal(tmp_path, rule) == (
        "2 tensors cannot be loaded: it is so\nl.{0-1}.a   (2)",
        "export again; to present them all the same: --force",
    )
    assert findings(plan(tmp_path, rule, force=True)) == [
        ("warned", ONE, "2 tensors cannot be loaded: l.{0-1}.a   (2): it is so")
    ]
