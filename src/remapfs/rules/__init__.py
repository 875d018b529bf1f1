"""What the tensors should be called."""

from remapfs.rules.language import load_preset, load_rules, parse_rules, preset_text, presets
from remapfs.rules.model import Rules

__all__ = ["Rules", "load_preset", "load_rules", "parse_rules", "preset_text", "presets"]
