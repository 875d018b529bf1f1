"""Where module names stand in quantisation configs.

The places are those that ModelOpt, compressed-tensors, AutoRound, Quark, AWQ and FP8 exporters write.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

_LISTS = ("ignore", "exclude_modules", "modules_to_not_convert", "ignored_layers")
_KEYED = ("quantized_layers", "layer_quant_config", "extra_config")
_NESTED = ("quantization_config", "compression_config", "quantization")


def map_modules(document: Any, rename: Callable[[str], list[str]]) -> Any:  # noqa: ANN401  # JSON
    """Replace every module name or pattern in a decoded config by the ones that `rename` gives for it."""
    if not isinstance(document, dict):
        return document
    return {
        key: _config(value, rename)
        if key in _NESTED and isinstance(value, dict)
        else map_modules(value, rename)
        for key, value in document.items()
    }


def _config(config: dict[str, Any], rename: Callable[[str], list[str]]) -> dict[str, Any]:
    result = dict(config)
    for key in _LISTS:
        if isinstance(config.get(key), list):
            result[key] = _names(config[key], rename)
    for key in _KEYED:
        if isinstance(config.get(key), dict):
            result[key] = {new: value for name, value in config[key].items() for new in rename(name)}
    groups = config.get("config_groups")
    if isinstance(groups, dict):
        result["config_groups"] = {name: _group(group, rename) for name, group in groups.items()}
    match config.get("block_name_to_quantize"):
        case str(names):
            result["block_name_to_quantize"] = ",".join(_names(names.split(","), rename))
        case list(names):
            result["block_name_to_quantize"] = _names(names, rename)
        case _:
            pass
    return result


def _group(group: Any, rename: Callable[[str], list[str]]) -> Any:  # noqa: ANN401  # JSON
    if not isinstance(group, dict) or not isinstance(group.get("targets"), list):
        return group
    # A target without a dot or a wildcard is a class of module ("Linear"), not a name.
    targets = [
        new
        for name in group["targets"]
        for new in (rename(name) if isinstance(name, str) and ("." in name or "*" in name) else [name])
    ]
    return {**group, "targets": targets}


def _names(names: list[Any], rename: Callable[[str], list[str]]) -> list[Any]:
    renamed = [new for name in names for new in (rename(name) if isinstance(name, str) else [name])]
    return list(dict.fromkeys(renamed)) if all(isinstance(name, str) for name in renamed) else renamed


def unquantised_modules(document: Any) -> tuple[str, ...] | None:  # noqa: ANN401  # JSON
    """List the modules that a decoded config says are not quantised, or None where none is."""
    if not isinstance(document, dict):
        return None
    sections = [document[key] for key in _NESTED if isinstance(document.get(key), dict)]
    if not sections:
        return None
    listed = (section[key] for section in sections for key in _LISTS if isinstance(section.get(key), list))
    return tuple(name for names in listed for name in names if isinstance(name, str))
