"""Situations: small checkpoints written down as TOML, made on disk for a test.

`source.toml` says what it is about and lists files by path: `tensors` as [name, dtype, shape] with optional
`metadata`, `gap`, `trailing` and `pad` bytes; or `header`, the text of a header, and `data`, the number of bytes
behind it; or `text`, `hex`, `link`, `length` (a file of zeros). `rules.toml` beside it holds the rules.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from remapfs import IndexMode, Plan, Rules, load_rules, make_plan, read_checkpoint

HERE = Path(__file__).parent
_BITS = {"F4": 4, "BF16": 16, "F16": 16, "F32": 32, "I32": 32, "I64": 64}


@dataclass(frozen=True, slots=True)
class Situation:
    """One directory below tests/cases or tests/should-fail."""

    folder: Path

    @property
    def description(self) -> dict[str, Any]:
        """What source.toml says."""
        return tomllib.loads((self.folder / "source.toml").read_text(encoding="utf-8"))

    @property
    def arguments(self) -> list[str]:
        """The command-line arguments behind the source."""
        rules = self.folder / "rules.toml"
        return [*(["--rules", str(rules)] if rules.exists() else []), *self.description.get("arguments", [])]

    def make(self, root: Path) -> Path:
        """Write the checkpoint below `root` and return the directory to present."""
        source = root / self.description.get("source", ".")
        source.mkdir(parents=True, exist_ok=True)
        for path, file in self.description["files"].items():
            target = source / path
            target.parent.mkdir(parents=True, exist_ok=True)
            if "link" in file:
                target.symlink_to(file["link"])
            elif "length" in file:
                target.write_bytes(b"")
                with target.open("r+b") as stream:
                    stream.truncate(file["length"])
            else:
                target.write_bytes(content(file))
        return source

    def plan(self, source: Path) -> Plan:
        """Plan as `remapfs plan` does with the situation's arguments."""
        arguments = self.arguments
        rules = Rules("none")
        if "--rules" in arguments:
            rules = load_rules(arguments[arguments.index("--rules") + 1])
        mode = arguments[arguments.index("--index") + 1] if "--index" in arguments else "strict"
        checkpoint = read_checkpoint(
            source,
            mode=IndexMode(mode),
            hides=rules.hides,
            documents=rules.documents,
            unindexed=rules.unindexed,
        )
        return make_plan(checkpoint, rules, force="--force" in arguments)


def situations(kind: str) -> list[Situation]:
    """List the situations below a folder of tests/, by name."""
    return [Situation(file.parent) for file in sorted((HERE / kind).glob("*/source.toml"))]


def values(name: str, length: int) -> bytes:
    """Make the bytes of a tensor from its name, so that a tensor under a wrong name is seen."""
    seed = hashlib.sha256(name.encode()).digest()
    return (seed * (length // len(seed) + 1))[:length]


def content(file: dict[str, Any]) -> bytes:
    """Make the bytes of a file that is described by tensors, a header, text or hex digits."""
    if "text" in file:
        return str(file["text"]).encode()
    if "hex" in file:
        return bytes.fromhex(file["hex"])
    if "header" in file:
        raw = file["header"].encode()
        return len(raw).to_bytes(8, "little") + raw + bytes(file.get("data", 0))
    return shard(file)


def shard(file: dict[str, Any]) -> bytes:
    """Make a safetensors file from a list of tensors."""
    header: dict[str, Any] = {}
    if "metadata" in file:
        header["__metadata__"] = None if file["metadata"] == "null" else file["metadata"]
    data = b""
    for name, dtype, shape in file["tensors"]:
        length = prod(shape) * _BITS.get(dtype, 8) // 8
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + length]}
        data += values(name, length) + bytes(file.get("gap", 0))
    data = data[: len(data) - file.get("gap", 0)] if file["tensors"] else data
    raw = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    raw += b" " * (file["pad"] if "pad" in file else -len(raw) % 8)
    return len(raw).to_bytes(8, "little") + raw + data + bytes(file.get("trailing", 0))
