"""Write a tiny checkpoint of each architecture, with random values, as transformers names them.

Run by a vLLM environment's Python:  write_tiny.py OUT
"""
# mypy: disable-error-code="import-not-found,no-any-unimported,unused-ignore"

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
import transformers

_COMMON: dict[str, Any] = {
    "vocab_size": 128,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "tie_word_embeddings": False,
}
_MOE = {"moe_intermediate_size": 32, "num_experts_per_tok": 2}
_MLA = _MOE | {
    "n_routed_experts": 4,
    "n_shared_experts": 1,
    "first_k_dense_replace": 1,
    "kv_lora_rank": 32,
    "qk_nope_head_dim": 16,
    "qk_rope_head_dim": 16,
    "v_head_dim": 16,
    "num_key_value_heads": 4,
    "n_group": 2,
    "topk_group": 1,
}
_MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("Llama", {}),
    "llama-tied": ("Llama", {"tie_word_embeddings": True}),
    "qwen3": ("Qwen3", {"head_dim": 16}),
    "qwen3-moe": ("Qwen3Moe", _MOE | {"num_experts": 4, "head_dim": 16, "decoder_sparse_step": 1}),
    "deepseek-v2": ("DeepseekV2", _MLA | {"q_lora_rank": None, "topk_method": "greedy"}),
    "deepseek-v3": ("DeepseekV3", _MLA | {"q_lora_rank": 32, "topk_method": "noaux_tc"}),
}


def main(out: Path) -> None:
    """Write them all, each into a directory of its name."""
    torch.manual_seed(0)
    for name, (family, sizes) in _MODELS.items():
        config = getattr(transformers, f"{family}Config")(**_COMMON | sizes)
        model = getattr(transformers, f"{family}ForCausalLM")(config).to(torch.bfloat16)
        for tensor in model.state_dict().values():
            if tensor.is_floating_point():
                tensor.normal_(std=0.02)
        model.save_pretrained(out / name)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
