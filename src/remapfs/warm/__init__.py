"""Filling the page cache with a checkpoint before somebody loads it."""

from remapfs.warm.files import shards_of
from remapfs.warm.fill import Report, fill

__all__ = ["Report", "fill", "shards_of"]
