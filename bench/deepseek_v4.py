"""DeepSeek-V4 as ModelOpt exports it with NVFP4 experts only: every tensor, and the JSON files."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator

# Bits a value, in the order in which the safetensors writer puts dtypes into a file.
BITS = {"I64": 64, "F32": 32, "BF16": 16, "F8_E4M3": 8, "U8": 8}
HEAD_DIM, INDEX_HEAD_DIM, INDEX_HEADS, KV_RANK, O_RANK, HC = 512, 128, 64, 512, 1024, 4
VOCABULARY, EXPERTS_PER_TOKEN, HASH_LAYERS, GROUP = 129280, 6, 3, 16
SWA, CSA, HCA = "sliding_attention", "compressed_sparse_attention", "heavily_compressed_attention"
RATES = {CSA: 4, HCA: 128}
BUFFERS = (".weight_scale", ".weight_scale_2", ".input_scale", ".tid2eid", ".e_score_correction_bias")
PRODUCER = {"name": "modelopt", "version": "0.45.0"}


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor: its name, safetensors dtype and shape."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """The number of bytes."""
        return prod(self.shape) * BITS[self.dtype] // 8

    @property
    def parameters(self) -> int:
        """What it adds to the index's total_parameters: stored values, and nothing for a buffer."""
        return 0 if self.name.endswith(BUFFERS) else prod(self.shape)


@dataclass(frozen=True, slots=True)
class Model:
    """The sizes in which the members of the family differ; `kinds` is the attention kind of each layer."""

    kinds: tuple[str, ...]
    hidden: int
    heads: int
    q_rank: int
    o_groups: int
    experts: int
    intermediate: int
    index_topk: int
    routed_scale: float


# The first two layers differ between the models; from the third on CSA and HCA alternate.
PRO = Model((HCA, HCA, *(CSA, HCA) * 29, CSA), 7168, 128, 1536, 16, 384, 3072, 1024, 2.5)
FLASH = Model((SWA, SWA, *(CSA, HCA) * 20, CSA), 4096, 64, 1024, 8, 256, 2048, 512, 1.5)
MODELS = {"pro": PRO, "flash": FLASH}


def tensors(model: Model) -> Iterator[Tensor]:
    """Yield every tensor in the order in which the model defines them."""
    yield Tensor("model.embed_tokens.weight", "BF16", (VOCABULARY, model.hidden))
    for number, kind in enumerate(model.kinds):
        for name, dtype, shape in _layer(model, number, kind):
            yield Tensor(f"model.layers.{number}.{name}", dtype, shape)
    yield Tensor("model.norm.weight", "F32", (model.hidden,))
    yield Tensor("model.hc_head.hc_fn", "F32", (HC, HC * model.hidden))
    yield Tensor("model.hc_head.hc_base", "F32", (HC,))
    yield Tensor("model.hc_head.hc_scale", "F32", (1,))
    yield Tensor("lm_head.weight", "BF16", (VOCABULARY, model.hidden))


_Row: TypeAlias = tuple[str, str, tuple[int, ...]]


def _layer(model: Model, number: int, kind: str) -> Iterator[_Row]:
    yield from _attention(model, kind)
    yield from _mlp(model, hashed=number < HASH_LAYERS)
    yield "input_layernorm.weight", "F32", (model.hidden,)
    yield "post_attention_layernorm.weight", "F32", (model.hidden,)
    mixes = HC * (HC + 2)
    for part in ("attn_hc", "ffn_hc"):
        yield f"{part}.fn", "F32", (mixes, HC * model.hidden)
        yield f"{part}.base", "F32", (mixes,)
        yield f"{part}.scale", "F32", (3,)


def _attention(model: Model, kind: str) -> Iterator[_Row]:
    at, hidden = "self_attn.", model.hidden
    yield at + "q_a_proj.weight", "BF16", (model.q_rank, hidden)
    yield at + "q_a_norm.weight", "F32", (model.q_rank,)
    yield at + "q_b_proj.weight", "BF16", (model.heads * HEAD_DIM, model.q_rank)
    yield at + "kv_proj.weight", "BF16", (KV_RANK, hidden)
    yield at + "kv_norm.weight", "F32", (KV_RANK,)
    yield at + "o_a_proj.weight", "BF16", (model.o_groups * O_RANK, model.heads * HEAD_DIM // model.o_groups)
    yield at + "o_b_proj.weight", "BF16", (hidden, model.o_groups * O_RANK)
    yield at + "sinks", "F32", (model.heads,)
    if kind == SWA:
        return
    # CSA compresses into two overlapping windows, so its projections are twice as wide.
    width = KV_RANK * (2 if kind == CSA else 1)
    yield from _compressor(at + "compressor.", width, KV_RANK, RATES[kind], hidden)
    if kind == CSA:
        inner = at + "compressor.indexer."
        yield from _compressor(inner, 2 * INDEX_HEAD_DIM, INDEX_HEAD_DIM, RATES[kind], hidden)
        yield inner + "q_b_proj.weight", "BF16", (INDEX_HEADS * INDEX_HEAD_DIM, model.q_rank)
        yield inner + "scorer.weights_proj.weight", "BF16", (INDEX_HEADS, hidden)


def _compressor(at: str, width: int, norm: int, rate: int, hidden: int) -> Iterator[_Row]:
    yield at + "kv_proj.weight", "BF16", (width, hidden)
    yield at + "gate_proj.weight", "BF16", (width, hidden)
    yield at + "position_bias", "F32", (rate, width)
    yield at + "kv_norm.weight", "F32", (norm,)


def _mlp(model: Model, *, hashed: bool) -> Iterator[_Row]:
    yield "mlp.gate.weight", "BF16", (model.experts, model.hidden)
    if hashed:
        yield "mlp.gate.tid2eid", "I64", (VOCABULARY, EXPERTS_PER_TOKEN)
    else:
        yield "mlp.gate.e_score_correction_bias", "F32", (model.experts,)
    up, down = (model.intermediate, model.hidden), (model.hidden, model.intermediate)
    projections = (("gate_proj", up), ("up_proj", up), ("down_proj", down))
    for expert in range(model.experts):
        for projection, (rows, columns) in projections:
            at = f"mlp.experts.{expert}.{projection}."
            yield at + "weight", "U8", (rows, columns // 2)
            yield at + "weight_scale", "F8_E4M3", (rows, columns // GROUP)
            yield at + "weight_scale_2", "F32", ()
            yield at + "input_scale", "F32", ()
    for projection, shape in projections:
        yield f"mlp.shared_experts.{projection}.weight", "BF16", shape


def unquantised(model: Model) -> list[str]:
    """List the module patterns that the experts-only recipe leaves alone, as ModelOpt sorts them."""
    parts = ("mlp.gate", "mlp.shared_experts*", "self_attn*")
    layers = (f"model.layers.{number}.{part}" for number in range(len(model.kinds)) for part in parts)
    return sorted(["lm_head", "model.embed_tokens", *layers])


def config(model: Model) -> dict[str, Any]:
    """Make what config.json holds."""
    layers = len(model.kinds)
    number: dict[str, Any] = {"dynamic": False, "num_bits": 4, "type": "float", "group_size": GROUP}
    yarn = {
        "beta_fast": 32,
        "beta_slow": 1,
        "factor": 16,
        "original_max_position_embeddings": 65536,
        "partial_rotary_factor": 0.125,
        "rope_theta": 160000.0,
        "rope_type": "yarn",
        "type": "yarn",
    }
    return {
        "architectures": ["DeepseekV4ForCausalLM"],
        "attention_bias": False,
        "attention_dropout": 0.0,
        "bos_token_id": 0,
        "compress_rates": RATES,
        "compress_rope_theta": 160000.0,
        "dtype": "bfloat16",
        "eos_token_id": 1,
        "hc_eps": 1e-06,
        "hc_mult": HC,
        "hc_sinkhorn_iters": 20,
        "head_dim": HEAD_DIM,
        "hidden_act": "silu",
        "hidden_size": model.hidden,
        "index_head_dim": INDEX_HEAD_DIM,
        "index_n_heads": INDEX_HEADS,
        "index_topk": model.index_topk,
        "initializer_range": 0.02,
        "layer_types": list(model.kinds),
        "max_position_embeddings": 1048576,
        "mlp_layer_types": ["hash_moe"] * HASH_LAYERS + ["moe"] * (layers - HASH_LAYERS),
        "model_type": "deepseek_v4",
        "moe_intermediate_size": model.intermediate,
        "n_routed_experts": model.experts,
        "n_shared_experts": 1,
        "norm_topk_prob": True,
        "num_attention_heads": model.heads,
        "num_experts_per_tok": EXPERTS_PER_TOKEN,
        "num_hidden_layers": layers,
        "num_key_value_heads": 1,
        "num_nextn_predict_layers": 1,
        "o_groups": model.o_groups,
        "o_lora_rank": O_RANK,
        "partial_rotary_factor": 0.125,
        "q_lora_rank": model.q_rank,
        "qk_rope_head_dim": 64,
        "rms_norm_eps": 1e-06,
        "rope_parameters": {
            "compress": yarn,
            "main": {"partial_rotary_factor": 0.125, "rope_theta": 10000.0, "rope_type": "default"},
        },
        "rope_theta": 10000.0,
        "routed_scaling_factor": model.routed_scale,
        "scoring_func": "sqrtsoftplus",
        "sliding_window": 128,
        "swiglu_limit": 10.0,
        "tie_word_embeddings": False,
        "topk_method": "noaux_tc",
        "transformers_version": "5.19.0",
        "use_cache": True,
        "vocab_size": VOCABULARY,
        "quantization_config": {
            "config_groups": {
                "group_0": {"input_activations": number, "weights": number, "targets": ["Linear"]},
            },
            "ignore": unquantised(model),
            "quant_algo": "NVFP4",
            "producer": PRODUCER,
            "quant_method": "modelopt",
        },
    }


def quantisation(model: Model) -> dict[str, Any]:
    """Make what hf_quant_config.json holds."""
    return {
        "producer": PRODUCER,
        "quantization": {
            "quant_algo": "NVFP4",
            "kv_cache_quant_algo": None,
            "group_size": GROUP,
            "exclude_modules": unquantised(model),
        },
    }


def generation() -> dict[str, Any]:
    """Make what generation_config.json holds."""
    return {
        "_from_model_config": True,
        "bos_token_id": 0,
        "eos_token_id": 1,
        "transformers_version": "5.19.0",
        "use_cache": True,
    }
