"""The dry run of vLLM's DeepSeek V4 loader on ModelOpt exports.

Needs an environment with vLLM, which REMAPFS_VLLM_PYTHON names. REMAPFS_NVFP4_CHECKPOINT and
REMAPFS_ALL_NVFP4_CHECKPOINT name ModelOpt exports of a tiny DeepSeek V4, the first with only the experts in
NVFP4, the second with everything. That the real loader does the same is tested in tests/e2e/test_vllm.py.
"""

from __future__ import annotations

import os
import re
from collections import Counter

import pytest

from check.test_compare import SEEDED
from remapfs import load_preset, make_plan, read_checkpoint
from remapfs.check import Outcome
from remapfs.check.vllm import run_loader
from remapfs.rules import Rules, parse_rules

_FAULTS = r"""
[[rename]]
match = 'layers\.2\.ffn\.experts\.3\.w2\.'
to    = 'layers.2.ffn.experts.3.down.'
[[drop]]
match = 'layers\.1\.ffn\.experts\.1\.w3\.weight$'
[[drop]]
match = 'layers\.1\.attn\.wkv\.weight$'
[[alias]]
name  = 'norm.weight'
as    = 'mtp.0.norm.weight'
"""


def _from_environment(variable: str) -> str:
    value = os.environ.get(variable)
    if not value:
        pytest.skip(f"{variable} is not set")
    return value


def _ask(variable: str, rules: Rules, *, force: bool = False) -> dict[Outcome, dict[str, str]]:
    """Give {outcome: {name: reason}}."""
    python = _from_environment("REMAPFS_VLLM_PYTHON")
    checkpoint = read_checkpoint(_from_environment(variable), documents=rules.documents)
    answer = run_loader(make_plan(checkpoint, rules, force=force), python)
    assert re.fullmatch(r"vLLM [\w.+]+, DeepseekV4ForCausalLM", answer.against)
    found: dict[Outcome, dict[str, str]] = {outcome: {} for outcome in Outcome}
    for each in answer.judged:
        found[each.outcome][each.name or each.source or ""] = each.reason
    return found


def test_every_tensor_of_an_experts_only_export_loads() -> None:
    """All 296, and none is missing."""
    found = _ask("REMAPFS_NVFP4_CHECKPOINT", load_preset("deepseek-v4"))
    assert {outcome: len(names) for outcome, names in found.items() if names} == {Outcome.LOADS: 296}


def test_of_an_export_with_everything_quantised_28_are_refused() -> None:
    """They are those that the real loader cannot load either."""
    found = _ask("REMAPFS_ALL_NVFP4_CHECKPOINT", load_preset("deepseek-v4"), force=True)
    assert len(found[Outcome.LOADS]) == 404 - 28
    modules = Counter(re.sub(r"\d+", "#", name.rpartition(".")[0]) for name in found[Outcome.REFUSED])
    assert modules == {
        "layers.#.attn.compressor.wkv": 8,
        "layers.#.attn.compressor.wgate": 8,
        "layers.#.attn.indexer.compressor.wkv": 4,
        "layers.#.attn.indexer.compressor.wgate": 4,
        "layers.#.attn.indexer.weights_proj": 4,
    }


def test_what_the_loader_skips_without_a_word_is_seen() -> None:
    """An expert under a wrong name, after others matched: nothing is raised, and its place stays empty.

    Parts that no tensor gives are named, and a draft model's tensors are left out by design.
    """
    rules = parse_rules(_FAULTS, "faults.toml").after(load_preset("deepseek-v4"))
    found = _ask("REMAPFS_NVFP4_CHECKPOINT", rules)
    leaves = ("input_scale", "weight", "weight_scale", "weight_scale_2")
    assert not found[Outcome.REFUSED]
    assert set(found[Outcome.IGNORED]) == {f"layers.2.ffn.experts.3.down.{leaf}" for leaf in leaves}
    experts = "model.layers.{}.ffn.experts.routed_experts.{}"
    assert found[Outcome.MISSING] == {
        "model.layers.1.attn.fused_wqa_wkv.weight": "no tensor gives a value to wkv",
        experts.format(1, "w13_weight"): "no tensor gives a value to w3 (up) of expert 1",
    } | {experts.format(2, f"w2_{leaf}"): "no tensor gives a value to all of expert 3" for leaf in leaves}
    assert set(found[Outcome.UNUSED]) == {"mtp.0.norm.weight"}


@pytest.mark.parametrize("seed", SEEDED)
def test_a_wrong_rule_is_found_by_vllm_too(seed: str) -> None:
    """The same rules that a comparison with a reference finds: nothing loads under the wrong name."""
    rule, tensors, _, _ = SEEDED[seed]
    found = _ask(
        "REMAPFS_NVFP4_CHECKPOINT", parse_rules(rule, "wrong.toml").after(load_preset("deepseek-v4"))
    )
    assert len(found[Outcome.LOADS]) == 296 - tensors
    assert len(found[Outcome.REFUSED]) + len(found[Outcome.IGNORED]) == tensors
    assert len(found[Outcome.MISSING]) == tensors


def test_without_rules_all_but_two_names_are_refused() -> None:
    """Also the configuration, which the real vLLM refuses before it looks at any name."""
    found = _ask("REMAPFS_NVFP4_CHECKPOINT", Rules("none"))
    assert "mlp_layer_types" in found[Outcome.REFUSED]["config.json"]
    assert set(found[Outcome.LOADS]) == {"model.embed_tokens.weight", "model.norm.weight"}
    assert len(found[Outcome.REFUSED]) == 1 + 296 - 2
