"""Rules for a model that has no preset, found by comparing its names with those that are wanted."""

from remapfs.suggest.engine import suggest
from remapfs.suggest.fixes import Fix, fixes
from remapfs.suggest.model import Decision, LeftOver, Named, Suggested, Suggestion
from remapfs.suggest.write import toml

__all__ = ["Decision", "Fix", "LeftOver", "Named", "Suggested", "Suggestion", "fixes", "suggest", "toml"]
