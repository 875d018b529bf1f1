"""Checkpoints written as ModelOpt writes them: sparse, or with random bytes for data."""

from __future__ import annotations

import json
import os
import struct
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from deepseek_v4 import BITS, FLASH, config, generation, quantisation, tensors

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from deepseek_v4 import Model, Tensor

# Bytes of one expert of hidden size 2048 and intermediate size 1024, and of what is written at once.
_EXPERT = 3 * (2048 * 1024 // 2 + 2048 * 1024 // 16 + 8)
_STEP = 16 << 20
_RANK = {dtype: rank for rank, dtype in enumerate(BITS)}


@dataclass(frozen=True, slots=True)
class Totals:
    """What was written: files, tensors, and bytes of tensor data and of whole shards."""

    shards: int
    tensors: int
    data: int
    apparent: int


def header(members: Iterable[Tensor]) -> bytes:
    """Encode the header of a shard, its length word included, in the safetensors writer's own order."""
    entries: dict[str, object] = {"__metadata__": {"format": "pt"}}
    at = 0
    for tensor in ordered(members):
        entries[tensor.name] = {
            "dtype": tensor.dtype,
            "shape": tensor.shape,
            "data_offsets": (at, at + tensor.size),
        }
        at += tensor.size
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text


def ordered(members: Iterable[Tensor]) -> list[Tensor]:
    """Sort as the safetensors writer does: wide dtypes first, then by name."""
    return sorted(members, key=lambda tensor: (_RANK[tensor.dtype], tensor.name))


def shards(members: Iterable[Tensor], count: int) -> list[list[Tensor]]:
    """Cut the tensors, in their order, into `count` runs of nearly equal bytes."""
    everything = list(members)
    total = sum(tensor.size for tensor in everything)
    runs: list[list[Tensor]] = [[] for _ in range(count)]
    start = 0
    for tensor in everything:
        runs[start * count // total].append(tensor)
        start += tensor.size
    if not all(runs):
        raise SystemExit(f"{count} shards are too many: some would be empty")
    return runs


def make(directory: Path, model: Model, count: int) -> Totals:
    """Write the whole model as `count` sparse shards into `directory`, which is made if it is missing."""
    return _checkpoint(directory, model, shards(tensors(model), count), sparse=True)


def make_experts(directory: Path, size: int, count: int) -> Totals:
    """Write `count` shards of random bytes, `size` bytes together, with the experts of one layer in each."""
    experts = max(1, round(size / count / _EXPERT))
    model = replace(FLASH, kinds=FLASH.kinds[:count], hidden=2048, intermediate=1024, experts=experts)
    runs: list[list[Tensor]] = [[] for _ in model.kinds]
    for tensor in tensors(model):
        if ".experts." in tensor.name:
            runs[int(tensor.name.split(".")[2])].append(tensor)
    return _checkpoint(directory, model, runs, sparse=False)


def _checkpoint(directory: Path, model: Model, runs: list[list[Tensor]], *, sparse: bool) -> Totals:
    directory.mkdir(parents=True, exist_ok=True)
    if any(directory.iterdir()):
        raise SystemExit(f"{directory} is not empty")
    weights: dict[str, str] = {}
    data = apparent = parameters = 0
    for number, run in enumerate(runs, 1):
        name = f"model-{number:05}-of-{len(runs):05}.safetensors"
        head = header(run)
        size = sum(tensor.size for tensor in run)
        with (directory / name).open("xb") as file:
            file.write(head)
            if sparse:
                file.truncate(len(head) + size)
            else:
                for start in range(0, size, _STEP):
                    file.write(os.urandom(min(_STEP, size - start)))
        weights |= {tensor.name: name for tensor in run}
        parameters += sum(tensor.parameters for tensor in run)
        data += size
        apparent += len(head) + size
    index = {"metadata": {"total_parameters": parameters, "total_size": data}, "weight_map": weights}
    _write(directory / "model.safetensors.index.json", json.dumps(index, indent=2, sort_keys=True) + "\n")
    _write(directory / "config.json", json.dumps(config(model), indent=4))
    _write(directory / "hf_quant_config.json", json.dumps(quantisation(model), indent=4))
    _write(directory / "generation_config.json", json.dumps(generation(), indent=2, sort_keys=True) + "\n")
    return Totals(len(runs), len(weights), data, apparent)


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
