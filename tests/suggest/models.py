"""Small models in the layouts that are met, as (name before, name after, dtype, shape)."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from remapfs import load_preset
from remapfs.rules import parse_rules
from remapfs.rules.apply import apply_steps
from remapfs.suggest import Named, toml

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from remapfs.suggest import Suggestion

PARTS = (".weight_scale", ".weight_scale_2", ".input_scale")
_CASES = Path(__file__).parents[1] / "cases"


class Both(NamedTuple):
    """A tensor under both names."""

    before: str
    after: str
    dtype: str
    shape: tuple[int, ...]


def sources(both: Iterable[Both]) -> list[Named]:
    """Give the tensors under their names before."""
    return [Named(each.before, each.dtype, each.shape) for each in both]


def wanted(both: Iterable[Both]) -> list[Named]:
    """Give the tensors under their names after."""
    return [Named(each.after, each.dtype, each.shape) for each in both]


def unquantised(tensors: Iterable[Named]) -> list[Named]:
    """Give the same model as it was before ModelOpt quantised it."""
    return [
        Named(name, "BF16", (shape[0], 2 * shape[1]))
        if dtype == "U8" and shape
        else Named(name, dtype, shape)
        for name, dtype, shape in tensors
        if not name.endswith(PARTS)
    ]


def only_names(tensors: Iterable[Named]) -> list[Named]:
    """Forget dtypes and shapes."""
    return [Named(name, None, None) for name, _, _ in tensors]


def renamed(suggestion: Suggestion, names: Sequence[str]) -> list[str | None]:
    """Apply the rules as a mount would: from the text of the rules file."""
    return list(apply_steps(names, parse_rules(toml(suggestion), "suggested.toml").steps).names)


def deepseek_v4(dialect: str) -> list[Both]:
    """Give DeepSeek V4 with three layers, in a dialect and under the names that the preset makes of it."""
    text = (_CASES / f"deepseek-v4-dialect-{dialect}" / "source.toml").read_text(encoding="utf-8")
    tensors = [
        (name, dtype, tuple(shape))
        for file in tomllib.loads(text)["files"].values()
        for name, dtype, shape in file.get("tensors", ())
    ]
    native = apply_steps([name for name, _, _ in tensors], load_preset("deepseek-v4").steps).names
    return [
        Both(name, new or "", dtype, shape) for (name, dtype, shape), new in zip(tensors, native, strict=True)
    ]


# What deepseek-ai's inference/convert.py calls the modules of DeepSeek V3.
_V3 = {
    "embed_tokens": "embed", "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
    "q_a_proj": "wq_a", "q_a_layernorm": "q_norm", "q_b_proj": "wq_b", "kv_a_proj_with_mqa": "wkv_a",
    "kv_a_layernorm": "kv_norm", "kv_b_proj": "wkv_b", "o_proj": "wo", "gate": "gate", "gate_proj": "w1",
    "down_proj": "w2", "up_proj": "w3", "norm": "norm", "lm_head": "head",
}  # fmt: skip


def deepseek_v3(layers: int = 5, dense: int = 2, experts: int = 3) -> list[Both]:
    """Give DeepSeek V3 in FP8, as Hugging Face has it and as deepseek-ai's own inference code does."""
    return [
        Both(name, deepseek_v3_native(name), dtype, shape)
        for name, dtype, shape in _deepseek_v3(layers, dense, experts)
    ]


def deepseek_v3_native(name: str) -> str:
    """Rename as convert.py does."""
    name = name.removeprefix("model.").replace("self_attn", "attn").replace("mlp", "ffn")
    name = name.replace("weight_scale_inv", "scale").replace("e_score_correction_bias", "bias")
    *before, module, leaf = name.split(".")
    return ".".join([*before, _V3[module], leaf])


def _deepseek_v3(layers: int, dense: int, experts: int) -> Iterator[tuple[str, str, tuple[int, ...]]]:
    hidden, vocabulary = 512, 1024
    yield "model.embed_tokens.weight", "BF16", (vocabulary, hidden)
    for number in range(layers):
        at = f"model.layers.{number}."
        yield from _fp8(f"{at}self_attn.q_a_proj", 256, hidden)
        yield f"{at}self_attn.q_a_layernorm.weight", "BF16", (256,)
        yield from _fp8(f"{at}self_attn.q_b_proj", 768, 256)
        yield from _fp8(f"{at}self_attn.kv_a_proj_with_mqa", 192, hidden)
        yield f"{at}self_attn.kv_a_layernorm.weight", "BF16", (128,)
        yield from _fp8(f"{at}self_attn.kv_b_proj", 1024, 128)
        yield from _fp8(f"{at}self_attn.o_proj", hidden, 512)
        yield f"{at}input_layernorm.weight", "BF16", (hidden,)
        yield f"{at}post_attention_layernorm.weight", "BF16", (hidden,)
        modules = ["mlp"] if number < dense else ["mlp.shared_experts"]
        if number >= dense:
            yield f"{at}mlp.gate.weight", "BF16", (experts, hidden)
            yield f"{at}mlp.gate.e_score_correction_bias", "F32", (experts,)
            modules += [f"mlp.experts.{expert}" for expert in range(experts)]
        width = 2048 if number < dense else 384
        for module in modules:
            yield from _fp8(f"{at}{module}.gate_proj", width, hidden)
            yield from _fp8(f"{at}{module}.up_proj", width, hidden)
            yield from _fp8(f"{at}{module}.down_proj", hidden, width)
    yield "model.norm.weight", "BF16", (hidden,)
    yield "lm_head.weight", "BF16", (vocabulary, hidden)


def _fp8(module: str, rows: int, columns: int) -> Iterator[tuple[str, str, tuple[int, ...]]]:
    yield f"{module}.weight", "F8_E4M3", (rows, columns)
    yield f"{module}.weight_scale_inv", "F32", (-(-rows // 128), -(-columns // 128))


# What Mistral's consolidated checkpoints, and Meta's before, call the modules of a Llama.
_CONSOLIDATED = {
    "model.embed_tokens": "tok_embeddings", "model.norm": "norm", "lm_head": "output",
    "self_attn.q_proj": "attention.wq", "self_attn.k_proj": "attention.wk",
    "self_attn.v_proj": "attention.wv", "self_attn.o_proj": "attention.wo",
    "mlp.gate_proj": "feed_forward.w1", "mlp.down_proj": "feed_forward.w2",
    "mlp.up_proj": "feed_forward.w3", "input_layernorm": "attention_norm",
    "post_attention_layernorm": "ffn_norm",
}  # fmt: skip


def llama(layers: int = 3, key_values: int = 64) -> list[Both]:
    """Give a Llama or Mistral under Hugging Face's names and as a consolidated checkpoint has it.

    With `key_values` equal to the hidden size of 64, all four projections of attention are of one shape.
    """
    hidden, wide = 64, 96
    shapes: dict[str, tuple[int, ...]] = {
        "self_attn.q_proj": (hidden, hidden), "self_attn.k_proj": (key_values, hidden),
        "self_attn.v_proj": (key_values, hidden), "self_attn.o_proj": (hidden, hidden),
        "mlp.gate_proj": (wide, hidden), "mlp.up_proj": (wide, hidden), "mlp.down_proj": (hidden, wide),
        "input_layernorm": (hidden,), "post_attention_layernorm": (hidden,),
    }  # fmt: skip
    outside = {"model.embed_tokens": (128, hidden), "model.norm": (hidden,), "lm_head": (128, hidden)}
    both = [
        Both(f"{name}.weight", f"{_CONSOLIDATED[name]}.weight", "BF16", shape)
        for name, shape in outside.items()
    ]
    for number in range(layers):
        both += [
            Both(
                f"model.layers.{number}.{name}.weight",
                f"layers.{number}.{_CONSOLIDATED[name]}.weight",
                "BF16",
                shape,
            )
            for name, shape in shapes.items()
        ]
    return both


def back(both: Iterable[Both]) -> list[Both]:
    """Exchange before and after."""
    return [Both(after, before, dtype, shape) for before, after, dtype, shape in both]


def layer_of(name: str) -> int:
    """Give the number behind `layers`, -1 outside of any."""
    found = re.search(r"\blayers\.(\d+)\.", name)
    return int(found[1]) if found else -1
