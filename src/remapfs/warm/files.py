"""Which files are warmed, and in which order: that of a loader."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from remapfs.errors import RemapError

if TYPE_CHECKING:
    from collections.abc import Sequence

_NUMBER = re.compile(r"(\d+)")


def natural(path: str) -> list[tuple[int, str]]:
    """Order paths as people count: shard 2 before shard 10."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in _NUMBER.split(path)]


def shards_of(directory: str, wanted: Sequence[str] = ()) -> list[str]:
    """List the shards below a directory in the order in which they are read, or the files that are wanted.

    Raises RemapError if there are none.
    """
    if not os.path.isdir(directory):
        what = "is not a directory" if os.path.exists(directory) else "does not exist"
        raise RemapError(f"{directory} {what}", "give a mount, or a directory of shards")
    if wanted:
        paths = [os.path.join(directory, name) for name in wanted]
        missing = [path for path in paths if not os.path.isfile(path)]
        if missing:
            raise RemapError(f"{missing[0]} is no file", "name files as they are called below the directory")
        return paths
    found = [
        os.path.join(folder, name)
        for folder, _, names in os.walk(directory)
        for name in names
        if name.endswith(".safetensors")
    ]
    if not found:
        raise RemapError(f"no *.safetensors file in {directory}", "is it mounted? see: remapfs status")
    return sorted(found, key=natural)
