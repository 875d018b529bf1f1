"""Write the demo checkpoint.

`headers.jsonl` holds the headers of a tiny DeepSeek V4 as NVIDIA ModelOpt 0.47 exported it with its
experts-only NVFP4 recipe, byte for byte, and the two configs are its own. Only the values are computed.
"""

from __future__ import annotations

import json
import zlib
from importlib import resources
from typing import TYPE_CHECKING

import numpy as np

from remapfs.checkpoint.header import LENGTH_BYTES, parse_header

if TYPE_CHECKING:
    from pathlib import Path

_CONFIGS = ("config.json", "hf_quant_config.json")
_INDEX = "model.safetensors.index.json"


def write_checkpoint(folder: Path) -> None:
    """Write shards, index and configs into an empty directory: 35 shards, 296 tensors, 29 MB."""
    data = resources.files("remapfs.demo")
    weight_map: dict[str, str] = {}
    total = 0
    for line in (data / "headers.jsonl").read_text().splitlines():
        entry = json.loads(line)
        raw = entry["header"].encode()
        # The size of the data is what the header says it is, so any size is given here and the last end
        # counts.
        tensors = parse_header(raw, entry["shard"], 1 << 40).tensors
        size = tensors[-1].end
        values = np.random.default_rng(zlib.crc32(entry["shard"].encode())).bytes(size)
        (folder / entry["shard"]).write_bytes(len(raw).to_bytes(LENGTH_BYTES, "little") + raw + values)
        weight_map |= {tensor.name: entry["shard"] for tensor in tensors}
        total += size
    index = {"metadata": {"total_size": total}, "weight_map": dict(sorted(weight_map.items()))}
    (folder / _INDEX).write_text(json.dumps(index, indent=2) + "\n")
    for name in _CONFIGS:
        (folder / name).write_text((data / name).read_text())
