"""The presets that ship with remapfs."""

from __future__ import annotations

import pytest

from remapfs import RemapError, load_preset, presets
from remapfs.plan.documents import apply_jq
from remapfs.rules import preset_parameters, preset_text
from remapfs.rules.apply import apply_steps

# One tensor a line: the native name, then what the dialects call it where they differ.
#   A: ModelOpt up to 0.45, transformers in memory;  B: save_pretrained, ModelOpt from 0.46;
#   D: ModelOpt 0.47's streaming export;  @ is model.layers.2.self_attn.
NAMES = """
embed.weight                              A model.embed_tokens.weight     D model.embed_tokens.weight
head.weight                               A lm_head.weight                D lm_head.weight
norm.weight                               A model.norm.weight             D model.norm.weight
hc_head_fn                                A model.hc_head.hc_fn           B model.hc_head.hc_fn
layers.2.hc_attn_base                     A model.layers.2.attn_hc.base   D layers.2.attn_hc.base
layers.2.hc_ffn_scale                     A model.layers.2.ffn_hc.scale   D layers.2.ffn_hc.scale
layers.2.attn_norm.weight                 A model.layers.2.input_layernorm.weight
layers.2.ffn_norm.weight                  A model.layers.2.post_attention_layernorm.weight
layers.2.attn.wq_a.weight                 A @q_a_proj.weight
layers.2.attn.wq_b.weight                 A @q_b_proj.weight
layers.2.attn.wkv.weight                  A @kv_proj.weight
layers.2.attn.wo_a.weight                 A @o_a_proj.weight
layers.2.attn.wo_b.weight_scale           A @o_b_proj.weight_scale
layers.2.attn.q_norm.weight               A @q_a_norm.weight
layers.2.attn.kv_norm.weight              A @kv_norm.weight B layers.2.attn.norm.weight
layers.2.attn.attn_sink                   A @sinks          D layers.2.attn.sinks
layers.2.attn.compressor.wkv.weight       A @compressor.kv_proj.weight
layers.2.attn.compressor.wgate.weight     A @compressor.gate_proj.weight
layers.2.attn.compressor.norm.weight      A @compressor.kv_norm.weight
layers.2.attn.compressor.ape              A @compressor.position_bias
layers.2.attn.indexer.wq_b.weight         A @compressor.indexer.q_b_proj.weight
layers.2.attn.indexer.weights_proj.weight A @compressor.indexer.scorer.weights_proj.weight
layers.2.attn.indexer.compressor.wkv.weight   A @compressor.indexer.kv_proj.weight
layers.2.attn.indexer.compressor.wgate.weight A @compressor.indexer.gate_proj.weight
layers.2.attn.indexer.compressor.norm.weight  A @compressor.indexer.kv_norm.weight
layers.2.attn.indexer.compressor.ape A @compressor.indexer.position_bias
layers.2.ffn.gate.weight                  A model.layers.2.mlp.gate.weight
layers.2.ffn.gate.tid2eid                 A model.layers.2.mlp.gate.tid2eid
layers.2.ffn.gate.bias                    A model.layers.2.mlp.gate.e_score_correction_bias
layers.2.ffn.experts.13.w1.weight         A model.layers.2.mlp.experts.13.gate_proj.weight
layers.2.ffn.experts.13.w3.weight_scale_2 A model.layers.2.mlp.experts.13.up_proj.weight_scale_2
layers.2.ffn.experts.13.w2.input_scale    A model.layers.2.mlp.experts.13.down_proj.input_scale
layers.2.ffn.shared_experts.w1.weight     A model.layers.2.mlp.shared_experts.gate_proj.weight
layers.2.ffn.shared_experts.w2.weight     A model.layers.2.mlp.shared_experts.down_proj.weight
mtp.0.attn.wkv.weight                     A model.mtp.0.self_attn.kv_proj.weight
"""
# D has these under native names but for their ends.
STREAMED = {
    "layers.2.attn.indexer.compressor.ape": "layers.2.attn.indexer.compressor.position_bias",
    "layers.2.attn.compressor.ape": "layers.2.attn.compressor.position_bias",
    "layers.2.ffn.gate.bias": "layers.2.ffn.gate.e_score_correction_bias",
    "layers.2.attn.kv_norm.weight": "layers.2.attn.norm.weight",
    "hc_head_fn": "model.hc_head.hc_fn",
}


def dialect(letter: str) -> dict[str, str]:
    """Map the native names to those of a dialect."""
    found = {}
    for line in NAMES.strip().splitlines():
        native, *others = line.replace("@", "model.layers.2.self_attn.").split()
        found[native] = dict(zip(others[::2], others[1::2], strict=True)).get(letter, native)
    return found | STREAMED if letter == "D" else found


def renamed(names: list[str]) -> tuple[str | None, ...]:
    """Apply the preset's steps."""
    return apply_steps(names, load_preset("deepseek-v4").steps).names


@pytest.mark.parametrize("letter", ["A", "B", "D"])
def test_every_dialect_becomes_native(letter: str) -> None:
    """Name by name."""
    names = dialect(letter)
    assert any(name != native for native, name in names.items())
    assert dict(zip(names, renamed(list(names.values())), strict=True)) == {name: name for name in names}


def test_a_dialect_below_model_becomes_native() -> None:
    """Exporters that put all but the head below `model.`."""
    native = [name for name in dialect("native") if name.startswith(("layers.", "mtp.", "norm."))]
    assert list(renamed([f"model.{name}" for name in native])) == native


def test_native_names_stay() -> None:
    """The preset can be applied to what it made."""
    native = list(dialect("native"))
    assert list(renamed(native)) == native


@pytest.mark.parametrize(
    "name", ["model.layers.0.self_attn.k_proj.k_scale", "model.layers.0.self_attn.v_proj.v_scale"]
)
def test_scales_of_the_cache_are_dropped(name: str) -> None:
    """The loader has no place for them."""
    assert renamed([name]) == (None,)


def config(document: dict[str, object], *, quantised_attention: bool = False) -> dict[str, object]:
    """Apply the preset's jq programs for config.json."""
    rules = [rule for rule in load_preset("deepseek-v4").json if rule.file == "config.json"]
    result: dict[str, object] = apply_jq("config.json", document, rules, lambda _: quantised_attention)[0]
    return result


def test_the_config_says_what_the_loader_wants() -> None:
    """Layer types become ratios, with a zero a predicted token, and hash layers are counted."""
    before: dict[str, object] = {
        "mlp_layer_types": ["hash_moe", "hash_moe", "moe"],
        "layer_types": ["sliding_attention", "compressed_sparse_attention", "heavily_compressed_attention"],
        "num_nextn_predict_layers": 1,
    }
    after = config(before)
    assert "mlp_layer_types" not in after
    assert after["num_hash_layers"] == 2
    assert after["compress_ratios"] == [0, 4, 128, 0]
    assert config(after) == after


def test_a_native_config_stays() -> None:
    """Nothing to do where the keys are there."""
    native: dict[str, object] = {"num_hash_layers": 3, "compress_ratios": [0, 4], "layer_types": ["x", "y"]}
    assert config(native) == native
    assert config({}) == {}


def test_a_layer_type_that_is_not_known_is_an_error() -> None:
    """A guess would load as garbage."""
    with pytest.raises(RemapError, match="layer_types has new_attention, which the preset does not know"):
        config({"layer_types": ["new_attention"]})


def test_quantised_attention_keeps_wo_a_out() -> None:
    """Once, and only where there is a list."""
    ignore = {"quantization_config": {"ignore": ["lm_head"]}}
    after = config(dict(ignore), quantised_attention=True)
    assert after == {"quantization_config": {"ignore": ["lm_head", "*.attn.wo_a"]}}
    assert config(after, quantised_attention=True) == after
    assert config(dict(ignore)) == ignore
    assert config({"x": 1}, quantised_attention=True) == {"x": 1}


def test_presets_are_listed_with_what_they_are_about() -> None:
    """And each can be loaded by its name."""
    known = presets()
    assert list(known) == sorted(known)
    assert "deepseek-v4" in known
    assert all(known.values())
    for name in known:
        values = dict.fromkeys(preset_parameters(name), "model.")
        assert load_preset(name, values).name == f"{name}.toml"
        assert "about" in preset_text(name)
