"""A checkpoint for containers, whose bytes through a mount are known without one."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from remapfs.cli.planning import Asked
from remapfs.present.reader import VirtualFileReader

if TYPE_CHECKING:
    from pathlib import Path

SHARD = "model.safetensors"
PREFIX = "model.language_model."
PRESET = ("--preset", "strip-prefix", "--set", f"prefix={PREFIX}")
_MIB = 1 << 20
_TENSOR = 16 * _MIB


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint, the SHA-256 of each file of its mount, and that of each MiB of the shard."""

    path: Path
    hashes: dict[str, str]
    parts: tuple[str, ...]


def write_checkpoint(path: Path) -> Checkpoint:
    """Write 48 MiB of random tensors under a prefix that PRESET takes away, and a file for root alone."""
    header = {
        f"{PREFIX}layers.{layer}.weight": {
            "dtype": "U8",
            "shape": [_TENSOR],
            "data_offsets": [layer * _TENSOR, (layer + 1) * _TENSOR],
        }
        for layer in range(3)
    }
    raw = json.dumps(header).encode()
    raw += b" " * (-len(raw) % 8)
    (path / SHARD).write_bytes(len(raw).to_bytes(8, "little") + raw + os.urandom(3 * _TENSOR))
    (path / "config.json").write_text('{"model_type": "test"}')
    (path / "secret.json").write_text('{"for": "root alone"}')
    (path / "secret.json").chmod(0o600)
    for folder in (path, *path.parents):  # a mount lets nobody in whom a directory above keeps out
        if folder.stat().st_mode & 0o005 != 0o005:
            folder.chmod(folder.stat().st_mode | 0o055)
    plan = Asked(presets=("strip-prefix",), values=(("prefix", PREFIX),)).plan(str(path))
    contents = {file.path: VirtualFileReader(file).read() or b"" for file in plan.files}
    shard = contents[SHARD]
    assert PREFIX.encode() not in shard[: len(raw)]
    return Checkpoint(
        path,
        {name: _hash(content) for name, content in contents.items()},
        tuple(_hash(shard[start : start + _MIB]) for start in range(0, len(shard), _MIB)),
    )


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
