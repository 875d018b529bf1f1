"""A small checkpoint to show and test with: real headers, computed values."""

from remapfs.demo.checkpoint import write_checkpoint
from remapfs.demo.compare import Comparison, compare, open_shards

__all__ = ["Comparison", "compare", "open_shards", "write_checkpoint"]
