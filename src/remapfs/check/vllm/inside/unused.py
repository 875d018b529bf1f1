"""Which tensors vLLM leaves out on purpose."""
# ruff: noqa: ANN401  # vLLM and torch are not typed
# mypy: disable-error-code="import-not-found,no-any-unimported,unused-ignore"

from __future__ import annotations

from typing import Any

_ROTARY = ("rotary_pos_emb.inv_freq", "rotary_emb.inv_freq", "rotary_emb.cos_cached", "rotary_emb.sin_cached")


class ByDesign:
    """Say why a tensor that was written nowhere has not been forgotten."""

    def __init__(self, model: Any, config: Any) -> None:
        from vllm.model_executor.models import utils  # noqa: PLC0415

        self._config = config
        self._mapper = getattr(model, "hf_to_vllm_mapper", None)
        self._layer = getattr(utils, "get_spec_layer_idx_from_weight_name", lambda *_: None)
        tied: Any = getattr(utils, "_get_tied_embedding_params", lambda _: {})
        self._tied: dict[str, str] = dict(tied(model))
        quantised = getattr(model, "quant_config", None) or getattr(
            getattr(model, "model", None), "quant_config", None
        )
        self._suffixes = tuple(getattr(quantised, "_ignore_unexpected_suffixes", ()))

    def reason(self, name: str) -> str | None:
        """Give the sentence, None where vLLM gives no reason to leave the tensor out."""
        if any(part in name for part in _ROTARY):
            return "vLLM computes it by itself"
        if self._is_draft(name):
            return "it belongs to a draft model for speculative decoding, which vLLM loads apart"
        mapped = self._mapped(name)
        if mapped is None:
            return f"{type(self._mapper).__name__} of the model class leaves it out"
        if mapped in self._tied:
            return f"it is tied to {self._tied[mapped]}"
        if self._suffixes and mapped.endswith(self._suffixes):
            return "its quantisation method leaves it out"
        return None

    def _is_draft(self, name: str) -> bool:
        if name.startswith("mtp.") or ".mtp." in name:
            return True
        try:
            return self._layer(self._config, name) is not None
        except (AttributeError, TypeError, ValueError):
            return False

    def _mapped(self, name: str) -> str | None:
        mapped = getattr(self._mapper, "_map_name", None)
        return name if mapped is None else mapped(name)
