"""Files on disk: shards, indexes, configs."""

from remapfs.checkpoint.index import IndexMode
from remapfs.checkpoint.model import Checkpoint, File, Folder, Index, Note, Shard
from remapfs.checkpoint.scan import read_checkpoint
from remapfs.checkpoint.source import Attributes, Source

__all__ = [
    "Attributes",
    "Checkpoint",
    "File",
    "Folder",
    "Index",
    "IndexMode",
    "Note",
    "Shard",
    "Source",
    "read_checkpoint",
]
