"""Presets on the headers of whole checkpoints: every name, dtype and shape against a naive reference."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import pytest
import safetensors

from banked import expand, table, write
from remapfs import load_preset, make_plan, open_file, read_checkpoint

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from banked import Row
    from remapfs import Plan

# DeepSeek's own conversion (deepseek-ai/DeepSeek-V3, inference/convert.py) exchanges one segment of a name
# for another, so a table of segments is the whole of it.
NATIVE = {
    "self_attn": "attn",
    "mlp": "ffn",
    "embed_tokens": "embed",
    "lm_head": "head",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "q_a_proj": "wq_a",
    "q_a_layernorm": "q_norm",
    "q_b_proj": "wq_b",
    "kv_a_proj_with_mqa": "wkv_a",
    "kv_a_layernorm": "kv_norm",
    "kv_b_proj": "wkv_b",
    "o_proj": "wo",
    "gate_proj": "w1",
    "down_proj": "w2",
    "up_proj": "w3",
    "weight_scale_inv": "scale",
    "e_score_correction_bias": "bias",
}


def deepseek_v3(name: str) -> str | None:
    """Leave out the layer for multi-token prediction, and exchange segments."""
    if name.startswith("model.layers.61."):
        return None
    return ".".join(NATIVE.get(segment, segment) for segment in name.removeprefix("model.").split("."))


def kimi_k25(name: str) -> str:
    """Move the layers below model, as vLLM's own mapper does."""
    head = "language_model.layers."
    return "language_model.model.layers." + name.removeprefix(head) if name.startswith(head) else name


def kimi_k2(name: str) -> str | None:
    """Take the language model out of its wrapper."""
    return kimi_k25(name).removeprefix("language_model.") if name.startswith("language_model.") else None


def qwen3_vl_moe(name: str) -> str:
    """Put the expert's number before its projection."""
    segments = name.split(".")
    if "experts" in segments:
        at = segments.index("experts") + 1
        segments[at], segments[at + 1] = segments[at + 1], segments[at]
    return ".".join(segments)


def to_compressed_tensors(name: str) -> str:
    """Take the scales of the KV cache out of the projections."""
    return name.replace(".k_proj.k_scale", ".k_scale").replace(".v_proj.v_scale", ".v_scale")


def to_modelopt(name: str) -> str:
    """Put the scales of the KV cache into the projections."""
    return name.replace(".self_attn.k_scale", ".self_attn.k_proj.k_scale").replace(
        ".self_attn.v_scale", ".self_attn.v_proj.v_scale"
    )


REFERENCES: dict[tuple[str, str], Callable[[str], str | None]] = {
    ("deepseek-r1", "deepseek-v3"): deepseek_v3,
    ("kimi-k2.5-nvfp4", "kimi-k2.5"): kimi_k25,
    ("kimi-k2.5-nvfp4", "kimi-k2"): kimi_k2,
    ("qwen3-vl-30b-a3b-nvfp4", "qwen3-vl-moe"): qwen3_vl_moe,
    ("llama-3.1-8b-fp8-modelopt", "modelopt-to-compressed-tensors"): to_compressed_tensors,
    ("llama-3.1-8b-fp8-compressed-tensors", "compressed-tensors-to-modelopt"): to_modelopt,
}
TABLES = sorted({header for header, _ in REFERENCES})


def planned(rows: list[Row], preset: str, folder: Path) -> Plan:
    """Plan a checkpoint of these tensors with a preset."""
    folder.mkdir()
    write(rows, folder)
    rules = load_preset(preset)
    return make_plan(read_checkpoint(str(folder), documents=rules.documents), rules)


def presented(plan: Plan, folder: Path) -> list[Row]:
    """Read the names, dtypes and shapes of every presented shard with the strict parser."""
    rows: list[Row] = []
    copy = folder / "copy.safetensors"
    for file in plan.files:
        if not file.path.endswith(".safetensors"):
            continue
        stream = open_file(file)
        length = int.from_bytes(stream.read(8), "little")
        with copy.open("wb") as out:
            out.write(length.to_bytes(8, "little") + stream.read(length))
            out.truncate(file.size)
        with safetensors.safe_open(copy, "np") as shard:
            for name in shard.keys():  # noqa: SIM118 - it is no mapping
                tensor = shard.get_slice(name)
                rows.append((name, tensor.get_dtype(), tuple(tensor.get_shape())))
    return rows


@pytest.mark.parametrize(("header", "preset"), REFERENCES)
def test_a_preset_gives_every_tensor_its_name_and_nothing_else(
    header: str, preset: str, tmp_path: Path
) -> None:
    """Of all tensors of the checkpoint: the naive reference's names, dtypes and shapes as before."""
    rows = expand(header)
    reference = REFERENCES[header, preset]
    wanted = sorted((new, dtype, shape) for name, dtype, shape in rows if (new := reference(name)))
    assert sorted(presented(planned(rows, preset, tmp_path / "source"), tmp_path)) == wanted


def test_deepseek_r1_comes_back_from_its_native_names(tmp_path: Path) -> None:
    """All but the layer that native checkpoints do not have."""
    rows = [row for row in expand("deepseek-r1") if not row[0].startswith("model.layers.61.")]
    native = [(new, dtype, shape) for name, dtype, shape in rows if (new := deepseek_v3(name))]
    plan = planned(native, "deepseek-v3-to-hf", tmp_path / "source")
    assert sorted(presented(plan, tmp_path)) == sorted(rows)


@pytest.mark.parametrize("header", TABLES)
def test_a_table_has_as_many_tensors_and_values_as_are_published(header: str) -> None:
    """A row that is missing or has a wrong shape would show here; packed weights hold two values a byte."""
    facts, rows = table(header), expand(header)
    assert len({name for name, *_ in rows}) == len(rows)
    assert len(rows) == facts.get("count", len(rows))
    assert sum(prod(shape) for *_, shape in rows) == facts.get(
        "elements", sum(prod(shape) for *_, shape in rows)
    )
    weights = sum(
        prod(shape) * (2 if dtype == "U8" else 1) for name, dtype, shape in rows if "_scale" not in name
    )
    assert weights == facts.get("parameters", weights)
