"""Load an NVFP4 export into vLLM's DeepSeek-V4 model class on a CPU, and write what became of each tensor.

Run by a vLLM environment's Python:  load_nvfp4.py MODEL OUT.json

vLLM's kernels for NVFP4 need a GPU, so the choice of a kernel is stubbed, and the names are mapped as
vLLM does it on NVIDIA: its mapping for CPUs is not made for these checkpoints. All that decides about names,
shapes and missing parameters is vLLM's own.
"""
# mypy: disable-error-code="import-not-found"

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from safetensors import safe_open


class _NoKernel(ModuleType):
    """Stands for a kernel, a CUDA stream or a module of kernels: it has every attribute and does nothing."""

    def __init__(self, *_: object, **__: object) -> None:
        super().__init__("no_kernel")

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  # whatever vLLM asks a kernel for
        if name.startswith("__"):
            raise AttributeError(name)
        return None


class _NoStream(_NoKernel):
    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        return super().__getattr__(name) or (lambda *_, **__: None)


# Before vLLM is imported: its modules take these names as they find them.
torch.cuda.Event = torch.cuda.Stream = _NoStream  # type: ignore[misc,assignment,unused-ignore]
sys.modules["vllm.model_executor.kernels.mhc.tilelang"] = _NoKernel()

from vllm.config import set_current_vllm_config  # noqa: E402
from vllm.distributed import init_distributed_environment, initialize_model_parallel  # noqa: E402
from vllm.engine.arg_utils import EngineArgs  # noqa: E402
from vllm.model_executor.layers.quantization import modelopt  # noqa: E402
from vllm.model_executor.model_loader.utils import initialize_model  # noqa: E402
from vllm.models.deepseek_v4.cpu import model as cpu  # noqa: E402
from vllm.models.deepseek_v4.nvidia import model as nvidia  # noqa: E402
from vllm.platforms import current_platform  # noqa: E402


def main(model_dir: Path, out: Path) -> None:
    """Build the model, offer it each tensor by itself, and write {loaded, failed, missing}."""
    _act_as_on_nvidia()
    engine = EngineArgs(
        model=os.fspath(model_dir),
        skip_tokenizer_init=True,
        enforce_eager=True,
        dtype="bfloat16",
        max_model_len=1024,
        max_num_batched_tokens=1024,
        max_num_seqs=2,
    )
    config = engine.create_engine_config()
    with set_current_vllm_config(config):
        init_distributed_environment(1, 0, f"file://{out}.rendezvous", 0, backend="gloo")
        initialize_model_parallel()
        torch.set_default_dtype(torch.bfloat16)
        result = _load(initialize_model(config), model_dir)
    out.write_text(json.dumps(result))


def _act_as_on_nvidia() -> None:
    type(current_platform).verify_quantization = classmethod(lambda *_: None)
    modelopt.select_nvfp4_moe_backend = lambda **_: (modelopt.NvFp4MoeBackend.FLASHINFER_TRTLLM, _NoKernel)
    modelopt.init_nvfp4_linear_kernel = lambda **_: _NoKernel()
    modelopt.expose_input_quant_key = lambda *_, **__: None
    cpu.DeepseekV4ForCausalLM.hf_to_vllm_mapper = nvidia.DeepseekV4ForCausalLM.hf_to_vllm_mapper


def _load(model: Any, model_dir: Path) -> dict[str, Any]:  # noqa: ANN401  # vLLM's models are not typed
    loaded: list[str] = []
    failed: dict[str, str] = {}
    missing = {name for name, _ in model.named_parameters()}
    for shard in sorted(model_dir.glob("*.safetensors")):
        with safe_open(shard, "pt") as tensors:
            for name in tensors.keys():  # noqa: SIM118  # a safe_open has keys, but is no mapping
                try:
                    parameters = model.load_weights([(name, tensors.get_tensor(name))])
                except Exception as error:  # noqa: BLE001  # each tensor's failure is the result
                    failed[name] = repr(error)
                else:
                    loaded.append(name)
                    missing -= parameters
    return {"loaded": loaded, "failed": failed, "missing": sorted(missing)}


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute(), Path(sys.argv[2]).absolute())
