"""What the tensors should be called."""

from remapfs.rules.language import (
    file_parameters,
    load_preset,
    load_rules,
    parse_rules,
    preset_parameters,
    preset_text,
    presets,
    presets_for_vllm,
)
from remapfs.rules.model import Rules

__all__ = [
    "Rules",
    "file_parameters",
    "load_preset",
    "load_rules",
    "parse_rules",
    "preset_parameters",
    "preset_text",
    "presets",
    "presets_for_vllm",
]
