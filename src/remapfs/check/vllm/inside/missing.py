"""Which parameters are left without a value, also partly."""
# ruff: noqa: ANN401  # vLLM and torch are not typed
# mypy: disable-error-code="import-not-found,no-any-unimported,unused-ignore"

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .ledger import Ledger
    from .regions import Box

_SHOWN = 8
_EXPERT_PARTS = {"w13": ("w1 (gate)", "w3 (up)")}


def missing(model: Any, ledger: Ledger) -> list[tuple[str, str]]:
    """Give (parameter, what of it has no value) for all that should come from the checkpoint."""
    modules = dict(model.named_modules())
    packed = getattr(model, "packed_modules_mapping", None) or {}
    exempt = _exempt(modules)
    found = []
    for name, parameter in model.named_parameters():
        if name in exempt:
            continue
        holes = ledger.holes(parameter)
        if holes:
            path, _, leaf = name.rpartition(".")
            found.append((name, _describe(holes, parameter, modules[path], path, leaf, packed)))
    return found


def _exempt(modules: dict[str, Any]) -> set[str]:
    """Give the parameters that vLLM fills by itself.

    This is what vLLM's own check of a quantised model leaves out (DefaultModelLoader.track_weights_loading).
    For unquantised models that check leaves out every linear layer, which would hide real holes.
    """
    from vllm.model_executor.layers.quantization.kv_cache import BaseKVCacheMethod  # noqa: PLC0415

    exempt = set()
    for path, module in modules.items():
        method = getattr(module, "quant_method", None)
        if method is None:
            continue
        by_itself = getattr(method, "uses_meta_device", False) or isinstance(method, BaseKVCacheMethod)
        for name, parameter in module.named_parameters():
            if by_itself or not parameter.numel() or name.rpartition(".")[2] in _FROM_CONFIG:
                exempt.add(f"{path}.{name}" if path else name)
    return exempt


_FROM_CONFIG = ("input_scale_ub",)


def _describe(  # noqa: PLR0913  # where the parameter is, and what it is made of
    holes: list[Box],
    parameter: Any,
    module: Any,
    path: str,
    leaf: str,
    packed: dict[str, list[str]],
) -> str:
    shape = tuple(parameter.shape)
    if holes == [tuple((0, size) for size in shape)]:
        return "no tensor gives it a value"
    expert = _is_expert(module, shape)
    names, dimension, sizes = _parts(parameter, module, path, leaf, packed)
    texts: dict[str, list[tuple[int, int]]] = {}
    for hole in holes:
        rest = [(d, span) for d, span in enumerate(hole) if span != (0, shape[d]) and not (expert and d == 0)]
        texts.setdefault(_where(rest, shape, names, dimension, sizes), []).append(hole[0])
    if not expert:
        return f"no tensor gives a value to {'; '.join(texts)}"
    return "no tensor gives a value to " + "; ".join(
        f"{text or 'all'} of {_experts(spans)}" for text, spans in texts.items()
    )


def _where(
    rest: list[tuple[int, tuple[int, int]]],
    shape: tuple[int, ...],
    names: list[str],
    dimension: int,
    sizes: list[int],
) -> str:
    texts = []
    for d, (start, stop) in rest:
        named = _named(start, stop, names, sizes) if d == dimension else ""
        texts.append(named or f"{start} to {stop - 1} of {shape[d]} in dimension {d}")
    return ", ".join(texts)


def _named(start: int, stop: int, names: list[str], sizes: list[int]) -> str:
    found, at = [], 0
    for name, size in zip(names, sizes, strict=True):
        if start <= at and at + size <= stop:
            found.append(name)
        elif start < at + size and at < stop:
            return ""
        at += size
    return " and ".join(found)


def _is_expert(module: Any, shape: tuple[int, ...]) -> bool:
    experts = getattr(module, "local_num_experts", None)
    return isinstance(experts, int) and bool(shape) and shape[0] == experts


def _parts(
    parameter: Any,
    module: Any,
    path: str,
    leaf: str,
    packed: dict[str, list[str]],
) -> tuple[list[str], int, list[int]]:
    """Give the names of the tensors that make up a parameter, along which dimension, and their sizes."""
    shape = tuple(parameter.shape)
    if _is_expert(module, shape):
        names = list(_EXPERT_PARTS.get(leaf.partition("_")[0], ()))
        dimension = 1
        if not names or len(shape) <= dimension or shape[dimension] % 2:
            return [], -1, []
        return names, dimension, [shape[dimension] // 2] * 2
    outputs = list(getattr(module, "output_sizes", ()))
    if not outputs or not shape:
        return [], -1, []
    own = path.rpartition(".")[2]
    names = list(packed.get(own, ()))
    if len(names) != len(outputs):
        names = [f"part {i + 1} of {len(outputs)} of {own}" for i in range(len(outputs))]
    dimension = getattr(parameter, "output_dim", None) or 0
    if shape[dimension] == len(outputs):
        return names, dimension, [1] * len(outputs)
    if (shape[dimension] * min(outputs)) % sum(outputs):
        return [], -1, []
    return names, dimension, [size * shape[dimension] // sum(outputs) for size in outputs]


def _experts(spans: list[tuple[int, int]]) -> str:
    texts = [str(a) if b == a + 1 else f"{a} to {b - 1}" for a, b in spans]
    more = f" and {len(texts) - _SHOWN} more" if len(texts) > _SHOWN else ""
    one = len(texts) == 1 and texts[0].isdigit()
    return f"expert{'' if one else 's'} {', '.join(texts[:_SHOWN])}{more}"
