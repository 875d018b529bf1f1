"""Write one tiny DeepSeek V4 twice: as vLLM names it (OUT/native) and as ModelOpt names it (OUT/hf).

Run by a vLLM environment's Python:  write_checkpoints.py OUT
"""
# mypy: disable-error-code="import-not-found"

from __future__ import annotations

import json
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import save_torch_state_dict
from safetensors.torch import load_file
from transformers.models.deepseek_v4 import DeepseekV4Config, DeepseekV4ForCausalLM

# One layer of each kind of attention, and both kinds of expert routing.
_LAYERS = {
    "layer_types": ["sliding_attention", "compressed_sparse_attention", "heavily_compressed_attention"],
    "mlp_layer_types": ["hash_moe", "moe", "moe"],
}
_LAYERS_AS_VLLM_READS_THEM = {"num_hash_layers": 1, "compress_ratios": [0, 4, 128]}

# The least sizes that vLLM's V4 classes can be built with.
_SIZES = {
    "vocab_size": 512,
    "hidden_size": 256,
    "moe_intermediate_size": 128,
    "num_hidden_layers": 3,
    "num_attention_heads": 8,
    "num_key_value_heads": 1,
    "head_dim": 512,
    "qk_rope_head_dim": 64,
    "q_lora_rank": 128,
    "o_groups": 2,
    "o_lora_rank": 64,
    "index_n_heads": 8,
    "index_head_dim": 128,
    "index_topk": 512,
    "n_routed_experts": 4,
    "n_shared_experts": 1,
    "num_experts_per_tok": 2,
    "num_nextn_predict_layers": 0,
    "max_position_embeddings": 2048,
    "sliding_window": 128,
    "topk_method": "noaux_tc",
    "expert_dtype": "fp8",
}
_YARN = {
    "type": "yarn",
    "factor": 1.0,
    "original_max_position_embeddings": 2048,
    "beta_fast": 32,
    "beta_slow": 1,
}


def main(out: Path) -> None:
    """Make the model and write it under both sets of names."""
    model = DeepseekV4ForCausalLM(DeepseekV4Config(**_SIZES, **_LAYERS, rope_scaling=_YARN)).to(
        torch.bfloat16
    )
    _fill(model)
    with tempfile.TemporaryDirectory() as saved:
        model.save_pretrained(saved)
        config = json.loads(Path(saved, "config.json").read_text())
        native = {_native(name): tensor for name, tensor in load_file(f"{saved}/model.safetensors").items()}
    _write(out / "hf", _as_exported(model.state_dict()), config)
    _write(
        out / "native",
        native,
        {key: value for key, value in config.items() if key not in _LAYERS} | _LAYERS_AS_VLLM_READS_THEM,
    )


def _fill(model: Any) -> None:  # noqa: ANN401  # transformers is not typed
    """Give every tensor values of its own: fresh norms are all alike, and two could change places unseen."""
    torch.manual_seed(0)
    for name, tensor in model.state_dict().items():
        if name.endswith("tid2eid"):
            tensor.random_(_SIZES["n_routed_experts"])
        else:
            tensor.normal_(std=0.02)


def _as_exported(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Keep transformers' names in memory, as ModelOpt does, and like it write one tensor an expert."""
    tensors = {}
    for name, tensor in state.items():
        if not name.endswith((".experts.gate_up_proj", ".experts.down_proj")):
            tensors[name] = tensor
            continue
        experts, _, fused = name.rpartition(".")
        parts = ["down_proj"] if fused == "down_proj" else ["gate_proj", "up_proj"]
        for number, expert in enumerate(tensor):
            for part, piece in zip(parts, expert.chunk(len(parts)), strict=True):
                tensors[f"{experts}.{number}.{part}.weight"] = piece.clone()
    return tensors


def _native(saved: str) -> str:
    """Turn a name as save_pretrained wrote it into vLLM's.

    transformers' own table does nearly all of it on saving, so that remapfs's rules are not compared with
    a copy of themselves; these few it leaves.
    """
    name = saved.removeprefix("model.")
    name = re.sub(r"^embed_tokens\.", "embed.", name)
    name = re.sub(r"^hc_head\.hc_", "hc_head_", name)
    return re.sub(r"\.attn\.norm\.", ".attn.kv_norm.", name)


def _write(folder: Path, tensors: dict[str, torch.Tensor], config: dict[str, Any]) -> None:
    folder.mkdir(parents=True)
    save_torch_state_dict(tensors, folder, max_shard_size="4MB")
    (folder / "config.json").write_text(json.dumps(config, indent=2))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
