"""What a plan presents against what a reference wants."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from check.references import asked, copy, demo, found, planned
from remapfs import open_file
from remapfs.check import Outcome, check_against
from situations import shard

if TYPE_CHECKING:
    from pathlib import Path


def rename(match: str, to: str) -> str:
    """Write a rule."""
    return f"[[rename]]\nmatch = '{match}'\nto = '{to}'\n"


LEAVES = "input_scale, weight, weight_scale, weight_scale_2"
SEEDED = {
    "one expert projection of one layer": (
        rename(r"^layers\.1\.ffn\.experts\.2\.w1\.", "layers.1.ffn.experts.2.wx."),
        4,
        f"layers.1.ffn.experts.2.w1.{{{LEAVES}}}",
        f"layers.1.ffn.experts.2.wx.{{{LEAVES}}}",
    ),
    "one layer-norm": (
        rename(r"^layers\.2\.attn_norm\.", "layers.2.attn_layernorm."),
        1,
        "layers.2.attn_norm.weight",
        "layers.2.attn_layernorm.weight",
    ),
    "one scale": (
        rename(r"^(layers\.3\.ffn\.experts\.0\.w3)\.weight_scale_2$", r"\1.scale_2"),
        1,
        "layers.3.ffn.experts.0.w3.weight_scale_2",
        "layers.3.ffn.experts.0.w3.scale_2",
    ),
}


@pytest.fixture
def native(tmp_path: Path) -> Path:
    """Give a reference: the small checkpoint copied under its native names."""
    return copy(planned(demo(tmp_path / "native-source")), tmp_path / "native")


def test_a_remapped_checkpoint_loads_against_a_copy_under_the_wanted_names(
    tmp_path: Path, native: Path
) -> None:
    """All tensors load, and none is missing."""
    answer, _ = check_against(planned(demo(tmp_path / "hf")), str(native))
    assert answer.loads
    assert {each.outcome for each in answer.judged} == {Outcome.LOADS}
    assert len(answer.judged) == 296


def test_names_that_no_rule_changed_are_all_missing_and_all_unexpected(tmp_path: Path, native: Path) -> None:
    """Without rules nothing of the Hugging Face checkpoint is what the native one wants."""
    answer, _ = check_against(planned(demo(tmp_path / "hf"), preset=None), str(native))
    counts = {
        outcome: sum(n for kind, _, n in found(answer) if kind == outcome) for outcome, _, _ in found(answer)
    }
    assert counts == {"missing": 296, "unexpected": 296}


@pytest.mark.parametrize("seed", SEEDED)
def test_a_wrong_rule_is_found(seed: str, tmp_path: Path, native: Path) -> None:
    """What the rule took away is missing, and what it made is unexpected: nothing else is reported."""
    rule, tensors, right, wrong = SEEDED[seed]
    assert asked(planned(demo(tmp_path / "hf"), rule), native) == [
        ("missing", right, tensors),
        ("unexpected", wrong, tensors),
    ]


@pytest.mark.parametrize("seed", SEEDED)
def test_the_fix_that_is_offered_puts_it_right(seed: str, tmp_path: Path, native: Path) -> None:
    """The rule of the report, put behind the wrong one, makes the checkpoint load."""
    rule = SEEDED[seed][0]
    source = demo(tmp_path / "hf")
    _, problems = check_against(planned(source, rule), str(native))
    (fix,) = {problem.fix for problem in problems if problem.fix}
    answer, problems = check_against(planned(source, rule + fix), str(native))
    assert (answer.loads, problems) == (True, [])


def test_two_projections_that_changed_places_are_found_by_their_shapes(tmp_path: Path, native: Path) -> None:
    """The names are all there; the weights and their scales have the other's shape."""
    swap = "".join(
        rename(rf"^layers\.1\.ffn\.experts\.2\.{old}\.", f"layers.1.ffn.experts.2.{new}.")
        for old, new in (("w1", "w0"), ("w2", "w1"), ("w0", "w2"))
    )
    assert asked(planned(demo(tmp_path / "hf"), swap), native) == [
        ("different", f"layers.1.ffn.experts.2.{projection}.{leaf}", 1)
        for projection in ("w1", "w2")
        for leaf in ("weight", "weight_scale")
    ]


def test_a_quantised_checkpoint_may_be_compared_with_the_plain_one(tmp_path: Path) -> None:
    """A packed weight and its scales stand for the plain weight, and a note says so."""
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain/m.safetensors").write_bytes(
        shard({"tensors": [["a.weight", "BF16", [4, 64]], ["n.weight", "BF16", [4]]]})
    )
    (tmp_path / "nvfp4").mkdir()
    quantised = [
        ["a.weight", "U8", [4, 32]],
        ["a.weight_scale", "F8_E4M3", [4, 4]],
        ["a.weight_scale_2", "F32", []],
        ["a.input_scale", "F32", []],
        ["n.weight", "F32", [4]],
    ]
    (tmp_path / "nvfp4/m.safetensors").write_bytes(shard({"tensors": quantised}))
    answer, _ = check_against(planned(tmp_path / "nvfp4", preset=None), str(tmp_path / "plain"))
    assert answer.loads
    converted, taken = answer.notes
    assert converted == "1 tensor in another float dtype than in the reference: readers convert"
    assert taken.startswith(
        "the reference is not quantised: 3 scales and the weights they belong to were taken"
    )


def test_a_plain_weight_where_a_quantised_one_is_wanted_is_found(tmp_path: Path) -> None:
    """The weight differs, and its scales are missing."""
    for folder, tensors in (
        ("here", [["a.weight", "BF16", [4, 64]]]),
        ("there", [["a.weight", "F8_E4M3", [4, 64]], ["a.weight_scale_inv", "F32", [1, 1]]]),
    ):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "m.safetensors").write_bytes(shard({"tensors": tensors}))
    answer, _ = check_against(planned(tmp_path / "here", preset=None), str(tmp_path / "there"))
    assert found(answer) == [("missing", "a.weight_scale_inv", 1), ("different", "a.weight", 1)]
    reasons = [each.reason for each in answer.judged if each.outcome is Outcome.DIFFERENT]
    assert reasons == ["not quantised here: BF16 [4, 64] here, F8_E4M3 [4, 64] wanted"]


def test_a_dropped_tensor_that_is_not_wanted_does_no_harm(tmp_path: Path) -> None:
    """It is counted as dropped, and the checkpoint loads."""
    (tmp_path / "m.safetensors").write_bytes(shard({"tensors": [["a", "F32", [1]], ["k_scale", "F32", []]]}))
    (tmp_path / "names.txt").write_text("# what the reader wants\na\n")
    answer, _ = check_against(
        planned(tmp_path, "[[drop]]\nsuffix = 'k_scale'\n", preset=None), str(tmp_path / "names.txt")
    )
    assert answer.loads
    assert [each.outcome for each in answer.judged] == [Outcome.DROPPED, Outcome.LOADS]


def test_a_quantised_module_that_the_config_excludes_is_found(tmp_path: Path) -> None:
    """The reader would build it unquantised, whatever the reference says."""
    source = demo(tmp_path / "hf")
    config = json.loads((source / "config.json").read_text())
    config["quantization_config"]["ignore"].append("model.layers.1.mlp.experts.3*")
    (source / "config.json").write_text(json.dumps(config))
    plan = planned(source)
    names = tmp_path / "names.txt"
    names.write_text("\n".join(name for each in plan.shards for _, name in each.presented()))
    assert asked(plan, names) == [
        ("different", f"layers.1.ffn.experts.3.{projection}.{{{LEAVES}}}", 4)
        for projection in ("w1", "w2", "w3")
    ]


def test_a_plain_matrix_that_the_config_does_not_exclude_is_noted(tmp_path: Path) -> None:
    """It may be no quantised layer at all, so it is a note and no failure."""
    source = demo(tmp_path / "hf")
    config = json.loads((source / "config.json").read_text())
    config["quantization_config"]["ignore"] = [
        name for name in config["quantization_config"]["ignore"] if name != "model.layers.1.mlp.gate"
    ]
    (source / "config.json").write_text(json.dumps(config))
    plan = planned(source)
    names = tmp_path / "names.txt"
    names.write_text("\n".join(name for each in plan.shards for _, name in each.presented()))
    answer, _ = check_against(plan, str(names))
    assert answer.loads
    assert answer.notes == (
        "1 matrices are not quantised, and not listed as such in config.json: layers.1.ffn.gate.weight",
    )


def test_components_in_sub_directories_are_told_apart(tmp_path: Path) -> None:
    """The same name in two components is two tensors."""
    for side in ("here", "there"):
        for component in ("vae", "unet"):
            (tmp_path / side / component).mkdir(parents=True)
            size = 2 if (side, component) == ("there", "unet") else 1
            (tmp_path / side / component / "m.safetensors").write_bytes(
                shard({"tensors": [["conv.weight", "F32", [size]]]})
            )
    answer, _ = check_against(planned(tmp_path / "here", preset=None), str(tmp_path / "there"))
    assert found(answer) == [("different", "unet/conv.weight", 1)]


def test_the_presented_bytes_are_what_was_judged(tmp_path: Path, native: Path) -> None:
    """The reference that these tests compare with is made of the plan's own files."""
    plan = planned(demo(tmp_path / "hf"))
    shards = [file for file in plan.files if file.path.endswith(".safetensors")]
    assert shards
    assert all(open_file(file).read() == (native / file.path).read_bytes() for file in shards)
