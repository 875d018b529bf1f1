"""Load checkpoints with real tensors into vLLM's real models on a CPU, and write what got no value.

Run by a vLLM environment's Python:  load_for_real.py OUT.json MODEL...

Every parameter is filled with one byte before, and loaded twice with different bytes: an element that has the
byte both times was never written. This shares nothing with the dry run.
"""
# mypy: disable-error-code="import-not-found,no-any-unimported,unused-ignore"

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors import safe_open
from vllm.config import set_current_vllm_config
from vllm.distributed import destroy_model_parallel, init_distributed_environment, initialize_model_parallel
from vllm.engine.arg_utils import EngineArgs
from vllm.model_executor.model_loader.utils import initialize_model

if TYPE_CHECKING:
    from collections.abc import Iterator

_BYTES = (0xA5, 0x5A)


def main(out: Path, models: list[str]) -> None:
    """Load one after the other, and write {directory: what became of it}."""
    found: dict[str, Any] = {}
    for model in models:
        config = EngineArgs(
            model=model,
            skip_tokenizer_init=True,
            enforce_eager=True,
            dtype="bfloat16",
            max_model_len=256,
            max_num_batched_tokens=256,
            max_num_seqs=2,
        ).create_engine_config()
        with set_current_vllm_config(config):
            if not found:
                init_distributed_environment(1, 0, f"file://{out}.rendezvous", 0, backend="gloo")
            # The groups depend on the model: a dense one has none for experts.
            destroy_model_parallel()
            initialize_model_parallel()
            torch.set_default_dtype(torch.bfloat16)
            found[model] = _load(config, Path(model))
        torch.set_default_dtype(torch.float32)
    out.write_text(json.dumps(found))


def _load(config: Any, folder: Path) -> dict[str, Any]:  # noqa: ANN401  # vLLM is not typed
    model = initialize_model(config)
    at = [""]
    unwritten: dict[str, Any] = {}
    for byte in _BYTES:
        for parameter in model.parameters():
            _bytes(parameter).fill_(byte)
        try:
            model.load_weights(_weights(folder, at))
        except Exception as error:  # noqa: BLE001  # the failure is the result
            return {"failed_at": at[0], "error": repr(error)[:300], "unwritten": {}}
        for name, parameter in model.named_parameters():
            same = (_bytes(parameter).view(parameter.numel(), -1) == byte).all(dim=1)
            unwritten[name] = same & unwritten.get(name, same)
    counts = {name: int(same.sum()) for name, same in unwritten.items()}
    return {"failed_at": None, "error": None, "unwritten": {name: n for name, n in counts.items() if n}}


def _bytes(parameter: Any) -> Any:  # noqa: ANN401
    return parameter.data.flatten().view(torch.uint8) if parameter.is_contiguous() else _strided(parameter)


def _strided(parameter: Any) -> Any:  # noqa: ANN401
    raise NotImplementedError(f"a parameter of strides {parameter.stride()}")


def _weights(folder: Path, at: list[str]) -> Iterator[tuple[str, Any]]:
    for shard in sorted(folder.glob("*.safetensors")):
        with safe_open(shard, "pt") as tensors:
            for name in tensors.keys():  # noqa: SIM118  # a safe_open has keys, but is no mapping
                at[0] = name
                yield name, tensors.get_tensor(name)


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute(), sys.argv[2:])
