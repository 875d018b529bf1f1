"""Build the model that config.json names, without storage."""
# ruff: noqa: ANN401  # vLLM and torch are not typed
# mypy: disable-error-code="import-not-found,no-any-unimported,unused-ignore"

from __future__ import annotations

import json
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

from .events import sentence

if TYPE_CHECKING:
    from collections.abc import Iterator

_LENGTHS = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "max_sequence_length")
_MOST_TOKENS = 1024


class ConfigRefused(Exception):  # noqa: N818  # it says what happened
    """vLLM does not take the configuration."""


class NotBuilt(Exception):  # noqa: N818  # likewise
    """The model cannot be built here."""


def engine_config(model_dir: str, *, trust_remote_code: bool) -> Any:
    """Let vLLM read the configuration as `vllm serve` does."""
    from vllm.engine.arg_utils import EngineArgs  # noqa: PLC0415  # only after the stand-ins are in place

    length = _length(model_dir)
    try:
        return EngineArgs(
            model=model_dir,
            skip_tokenizer_init=True,
            trust_remote_code=trust_remote_code,
            dtype="bfloat16",
            enforce_eager=True,
            max_model_len=length,
            max_num_batched_tokens=_MOST_TOKENS,
            max_num_seqs=2,
        ).create_engine_config()
    except Exception as error:
        raise ConfigRefused(sentence(error, 600)) from error


@contextmanager
def built(config: Any, scratch: str) -> Iterator[Any]:
    """Give the model on torch's meta device, in the surroundings that its loader expects."""
    from vllm.config import set_current_vllm_config  # noqa: PLC0415
    from vllm.distributed import init_distributed_environment, initialize_model_parallel  # noqa: PLC0415
    from vllm.model_executor.model_loader.utils import initialize_model  # noqa: PLC0415

    with set_current_vllm_config(config):
        meeting = f"file://{os.path.join(scratch, 'rendezvous')}"
        init_distributed_environment(1, 0, meeting, 0, backend="gloo")
        initialize_model_parallel()
        torch.set_default_dtype(config.model_config.dtype)
        try:
            with torch.device("meta"):
                model = initialize_model(config)
        except Exception as error:
            raise NotBuilt(sentence(error, 600)) from error
        _remember(model)
        _plain_parameters()
        yield model


def inspect_here() -> None:
    """Let vLLM look at a model class in this process: it would start another one, to keep CUDA out of it."""
    from vllm.model_executor.models import registry  # noqa: PLC0415

    lazy, info = getattr(registry, "_LazyRegisteredModel", None), getattr(registry, "_ModelInfo", None)
    if lazy is not None and info is not None:
        lazy.inspect_model_cls = lambda self: info.from_model_cls(self.load_model_cls())


def _plain_parameters() -> None:
    """Spare vLLM's parameters a detour that leads back to what torch's own do."""
    from vllm.model_executor import parameter  # noqa: PLC0415

    base = getattr(parameter, "BasevLLMParameter", None)
    if base is not None:
        base.__torch_function__ = torch._C._disabled_torch_function_impl  # noqa: SLF001  # as torch's Parameter


def _remember(model: Any) -> None:
    """Keep the lists of parameters, which loaders make whenever they start: after each refusal."""
    for module in model.modules():
        object.__setattr__(module, "named_parameters", _Remembered(module.named_parameters))


class _Remembered:
    """A method that gives an iterator, whose items are computed once for each set of arguments."""

    def __init__(self, method: Any) -> None:
        self._method = method
        self._results: dict[Any, list[Any]] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Iterator[Any]:
        key = args, tuple(sorted(kwargs.items()))
        if key not in self._results:
            self._results[key] = list(self._method(*args, **kwargs))
        return iter(self._results[key])


def _length(model_dir: str) -> int:
    with open(os.path.join(model_dir, "config.json"), encoding="utf-8") as stream:
        config = json.load(stream)
    parts = [config, *(config.get(key) for key in ("text_config", "llm_config", "language_config"))]
    known = [
        part[key]
        for part in parts
        if isinstance(part, dict)
        for key in _LENGTHS
        if isinstance(part.get(key), int)
    ]
    return min([_MOST_TOKENS, *(int(length) for length in known if length > 0)])
