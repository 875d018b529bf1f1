"""Stand-ins for what only a GPU has, so that a model can be built where there is none.

They stand for kernels, and for the choice of one. Names, shapes and what is left out stay vLLM's own.
"""
# ruff: noqa: ANN401  # vLLM and torch are not typed
# mypy: disable-error-code="import-not-found,no-any-unimported,attr-defined,unused-ignore"

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any

import torch


class _NoKernel(ModuleType):
    """A kernel, or a module of kernels: it has every attribute, and does nothing."""

    def __init__(self, *_: object, **__: object) -> None:
        super().__init__("no_kernel")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return None


class _NoStream(_NoKernel):
    """A CUDA stream or event: its methods do nothing."""

    def __getattr__(self, name: str) -> Any:
        return super().__getattr__(name) or (lambda *_, **__: None)


def before_vllm() -> None:
    """Put in place what vLLM's modules take as they find it when they are imported."""
    if torch.cuda.is_available():
        return
    torch.cuda.Event = torch.cuda.Stream = _NoStream
    sys.modules.setdefault("vllm.model_executor.kernels.mhc.tilelang", _NoKernel())


def without_gpu() -> bool:
    """Make vLLM build models on this machine's CPU; say whether anything had to be put in place.

    On a machine with a GPU that vLLM knows, nothing is changed.
    """
    platforms = importlib.import_module("vllm.platforms")
    if platforms.current_platform.is_unspecified():
        # A build for CUDA without a GPU: nothing is computed, so the CPU's classes do.
        cpu = importlib.import_module("vllm.platforms.cpu")
        platforms._current_platform = cpu.CpuPlatform()  # noqa: SLF001  # vLLM reads it from there
    if not platforms.current_platform.is_cpu():
        return False
    type(platforms.current_platform).verify_quantization = classmethod(lambda *_: None)
    _no_kernels()
    return True


def as_on_nvidia(architecture: str) -> None:
    """Give DeepSeek V4 the names that vLLM wants on NVIDIA: those for CPUs have other input scales."""
    if not architecture.startswith("DeepseekV4"):
        return
    cpu = importlib.import_module("vllm.models.deepseek_v4.cpu.model")
    nvidia = importlib.import_module("vllm.models.deepseek_v4.nvidia.model")
    cpu.DeepseekV4ForCausalLM.hf_to_vllm_mapper = nvidia.DeepseekV4ForCausalLM.hf_to_vllm_mapper
    make = nvidia._make_deepseek_v4_weights_mapper  # noqa: SLF001  # the class's default is made by it
    cpu._make_deepseek_v4_weights_mapper = lambda expert_dtype, **_: make(expert_dtype)  # noqa: SLF001


def _no_kernels() -> None:
    try:
        modelopt = importlib.import_module("vllm.model_executor.layers.quantization.modelopt")
    except ImportError:
        return
    backends = modelopt.NvFp4MoeBackend
    modelopt.select_nvfp4_moe_backend = lambda **_: (backends.FLASHINFER_TRTLLM, _NoKernel)
    modelopt.init_nvfp4_linear_kernel = lambda **_: _NoKernel()
    modelopt.expose_input_quant_key = lambda *_, **__: None
