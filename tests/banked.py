"""Headers of real checkpoints at full size, kept as a table of names, dtypes and shapes.

A row's name may hold `{3-61}`: it stands for one tensor for each number. `expand` gives all tensors of a
table; `write` puts them into sparse shards without weights, one a layer, as large as the real ones.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from itertools import product
from math import prod
from pathlib import Path
from typing import Any, Final, TypeAlias

Row: TypeAlias = tuple[str, str, tuple[int, ...]]

_TABLES: Final = Path(__file__).parent / "headers"
_RANGE: Final = re.compile(r"\{(\d+)-(\d+)\}")
_LAYER: Final = re.compile(r"\.layers\.(\d+)\.")
_BITS: Final = {"BF16": 16, "F32": 32}


def table(name: str) -> dict[str, Any]:
    """Read a table."""
    return tomllib.loads((_TABLES / f"{name}.toml").read_text(encoding="utf-8"))


def expand(name: str) -> list[Row]:
    """Give every tensor of a table as (name, dtype, shape)."""
    rows: list[Row] = []
    for pattern, dtype, shape in table(name)["tensors"]:
        texts = _RANGE.split(pattern)
        ranges = [range(int(a), int(b) + 1) for a, b in zip(texts[1::3], texts[2::3], strict=True)]
        for numbers in product(*ranges):
            parts = [
                text for pair in zip(texts[3::3], numbers, strict=True) for text in (str(pair[1]), pair[0])
            ]
            rows.append((texts[0] + "".join(parts), dtype, tuple(shape)))
    return rows


def write(rows: list[Row], folder: Path) -> None:
    """Write sparse shards, one a layer and one for the rest, and their index."""
    shards: dict[str, list[Row]] = {}
    for row in rows:
        layer = _LAYER.search(row[0])
        shards.setdefault(f"model-{layer[1] if layer else 'rest'}.safetensors", []).append(row)
    for file, content in shards.items():
        header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
        end = 0
        for name, dtype, shape in content:
            begin, end = end, end + prod(shape) * _BITS.get(dtype, 8) // 8
            header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}
        write_header(folder / file, json.dumps(header, separators=(",", ":")).encode(), end)
    index = {
        "metadata": {},
        "weight_map": {row[0]: file for file, content in shards.items() for row in content},
    }
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def write_header(path: Path, header: bytes, data: int) -> None:
    """Write a header and, sparse, `data` bytes behind it."""
    header += b" " * (-len(header) % 8)
    path.write_bytes(len(header).to_bytes(8, "little") + header)
    os.truncate(path, 8 + len(header) + data)
