"""Let the vLLM engine load MODEL, and write the SHA-256 of every parameter that it then holds.

Run by a vLLM environment's Python:  load_engine.py MODEL OUT.json [LOAD_STRATEGY]
"""
# mypy: disable-error-code="import-not-found,attr-defined"

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import torch
from vllm import LLM
from vllm.model_executor.model_loader import base_loader


def digests(model: Any) -> dict[str, str]:  # noqa: ANN401  # vLLM's models are not typed
    """Give {parameter: SHA-256 of its bytes}."""
    return {
        name: hashlib.sha256(parameter.detach().contiguous().flatten().view(torch.uint8).numpy()).hexdigest()
        for name, parameter in model.named_parameters()
    }


def pack_only_where_this_processor_can() -> None:
    """Leave the weights as they were loaded where vLLM's build for this processor cannot pack them.

    Without AVX-512 its CPU kernels have no packing for DeepSeek V4, which is done behind the loading.
    """
    if not hasattr(torch.ops._C, "convert_weight_packed"):  # noqa: SLF001  # the name of vLLM's own kernels
        base_loader.process_weights_after_loading = lambda *_: None


def main(model: str, out: Path, strategy: str | None = None) -> None:
    """Start the engine as `vllm serve` does, up to the loaded model."""
    pack_only_where_this_processor_can()
    engine = LLM(
        model,
        skip_tokenizer_init=True,
        enforce_eager=True,
        dtype="bfloat16",
        max_model_len=256,
        max_num_seqs=2,
        safetensors_load_strategy=strategy,
    )
    out.write_text(json.dumps(engine.apply_model(digests)[0]))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:])
