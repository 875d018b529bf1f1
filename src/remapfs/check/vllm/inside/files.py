"""Which shards vLLM reads, and in which order."""
# ruff: noqa: ANN401  # vLLM and torch are not typed
# mypy: disable-error-code="import-not-found,no-any-unimported,unused-ignore"

from __future__ import annotations

import os
import re
from typing import Any

from .events import sentence

_DIGITS = re.compile(r"(\d+)")


def chosen(loader: Any, model: Any, model_dir: str) -> list[str]:
    """Ask vLLM's own loader which files it would read; paths below `model_dir`, in its order."""
    _, files, safetensors, _ = loader._prepare_weights(  # noqa: SLF001  # there is no other way to ask
        model_dir,
        None,
        None,
        getattr(model, "fall_back_to_pt_during_load", True),
        getattr(model, "allow_patterns_overrides", None),
    )
    if not safetensors:
        return []
    return [os.path.relpath(path, model_dir) for path in sorted(files, key=_natural)]


def why_unread(path: str) -> str:
    """Say why a shard is not among the chosen ones."""
    where = "in a sub-directory" if "/" in path else "not one that its index names"
    return f"vLLM does not read {path}: it is {where}"


def no_weights(error: Exception) -> str:
    """Say why vLLM would read no shard at all."""
    return f"vLLM finds no shard to read: {sentence(error)}"


def _natural(path: str) -> list[Any]:
    parts = _DIGITS.split(os.path.basename(path))
    return [int(part) if part.isdigit() else part for part in parts]
