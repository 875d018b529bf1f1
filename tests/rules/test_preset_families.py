"""Presets of other families: nothing is renamed twice, and what has two directions comes back."""

from __future__ import annotations

import pytest

from remapfs import load_preset, presets
from remapfs.rules.apply import apply_steps
from situations import situations

VALUES = {"prefix": "model.language_model."}
NAMES = sorted(
    {
        name
        for case in situations("cases")
        for file in case.description.get("files", {}).values()
        for name, *_ in file.get("tensors", [])
    }
)
PAIRS = [
    ("deepseek-v3", "deepseek-v3-to-hf", "deepseek-v3"),
    ("deepseek-v3-to-hf", "deepseek-v3", "deepseek-v3-native-to-hf"),
    (
        "modelopt-to-compressed-tensors",
        "compressed-tensors-to-modelopt",
        "modelopt-fp8-to-compressed-tensors",
    ),
    (
        "compressed-tensors-to-modelopt",
        "modelopt-to-compressed-tensors",
        "compressed-tensors-fp8-to-modelopt",
    ),
]


def renamed(preset: str, names: list[str]) -> list[str | None]:
    """Apply a preset's rules."""
    return list(apply_steps(names, load_preset(preset, VALUES).steps).names)


def of(case: str) -> list[str]:
    """Give the names of a situation."""
    (found,) = (each for each in situations("cases") if each.folder.name == case)
    files = found.description["files"].values()
    return [name for file in files for name, *_ in file.get("tensors", [])]


@pytest.mark.parametrize("preset", sorted(set(presets()) - {"strip-prefix"}))
def test_a_preset_changes_nothing_the_second_time(preset: str) -> None:
    """On the names of every situation: a checkpoint that is right already stays as it is."""
    once = [name for name in renamed(preset, NAMES) if name]
    assert renamed(preset, once) == once


def test_strip_prefix_takes_off_one_prefix_a_time() -> None:
    """What begins with it twice keeps one."""
    assert renamed("strip-prefix", ["model.language_model.model.language_model.x", "x"]) == [
        "model.language_model.x",
        "x",
    ]


@pytest.mark.parametrize(("there", "back", "case"), PAIRS)
def test_what_has_two_directions_comes_back(there: str, back: str, case: str) -> None:
    """Every name that was not dropped returns to what it was."""
    names = of(case)
    moved = renamed(there, names)
    kept = [(name, new) for name, new in zip(names, moved, strict=True) if new is not None]
    assert any(name != new for name, new in kept)
    assert renamed(back, [new for _, new in kept]) == [name for name, _ in kept]


def test_the_native_names_of_deepseek_v3_are_those_of_its_own_code() -> None:
    """Both situations, written down separately, have the same names in both forms."""
    hugging_face, native = of("deepseek-v3"), of("deepseek-v3-native-to-hf")
    assert [name for name in renamed("deepseek-v3", hugging_face) if name] == native


def test_only_what_deepseek_v3_predicts_ahead_with_is_dropped() -> None:
    """Layer 61 goes, and a layer whose number begins so does not."""
    names = ["model.layers.61.enorm.weight", "model.layers.6.mlp.gate.weight", "model.layers.610.x"]
    assert renamed("deepseek-v3", names) == [None, "layers.6.ffn.gate.weight", "layers.610.x"]
