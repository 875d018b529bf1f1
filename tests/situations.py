"""Situations: small checkpoints written down as TOML, made on disk for a test.

`source.toml` says what it is about and lists files by path: `tensors` as [name, dtype, shape] with optional
`metadata`, `gap`, `trailing` and `pad` bytes; or `header`, the text of a header, and `data`, the number of
bytes behind it; or `text`, `hex`, `link`, or `large_header` (a length, with nothing behind it). `headers`
names a real export, of which tests/headers has the headers and configs; `demo` is the package's own.
`rules.toml` beside it holds the rules.
"""

from __future__ import annotations

import hashlib
import json
import os
import tomllib
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from remapfs import IndexMode
from remapfs.cli.planning import Asked
from remapfs.demo import write_checkpoint

if TYPE_CHECKING:
    from remapfs import Plan

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
        source = root / str(self.description.get("source", "."))
        source.mkdir(parents=True, exist_ok=True)
        if "headers" in self.description:
            write_headers(self.description["headers"], source)
        for path, file in self.description.get("files", {}).items():
            target = source / path
            target.parent.mkdir(parents=True, exist_ok=True)
            if "link" in file:
                target.symlink_to(file["link"])
            elif "large_header" in file:
                target.write_bytes(file["large_header"].to_bytes(8, "little") + b"{")
                os.truncate(target, 8 + file["large_header"])
            else:
                target.write_bytes(content(file))
        return source

    def plan(self, source: Path) -> Plan:
        """Plan as `remapfs plan` does with the situation's arguments."""
        given = [(key, value) for key, value in pairwise(self.arguments) if key.startswith("--")]
        options = dict(given)
        values = (value.partition("=") for key, value in given if key == "--set")
        asked = Asked(
            presets=tuple(value for key, value in given if key == "--preset"),
            rules_file=options.get("--rules"),
            values=tuple((name, value) for name, _, value in values),
            mode=IndexMode(options.get("--index", "strict")),
            force="--force" in self.arguments,
        )
        return asked.plan(str(source))


def situations(kind: str) -> list[Situation]:
    """List the situations below a folder of tests/, by name."""
    return [Situation(file.parent) for file in sorted((HERE / kind).glob("*/source.toml"))]


def write_headers(name: str, source: Path) -> None:
    """Write a real export from its headers, as sparse files without weights."""
    if name == "demo":
        write_checkpoint(source)
        return
    weight_map: dict[str, str] = {}
    for line in (HERE / "headers" / name / "headers.jsonl").read_text().splitlines():
        entry = json.loads(line)
        raw = entry["header"].encode()
        tensors = {key: value for key, value in json.loads(raw).items() if key != "__metadata__"}
        (source / entry["shard"]).write_bytes(len(raw).to_bytes(8, "little") + raw)
        end = max(value["data_offsets"][1] for value in tensors.values())
        os.truncate(source / entry["shard"], 8 + len(raw) + end)
        weight_map |= dict.fromkeys(tensors, entry["shard"])
    index = {"metadata": {}, "weight_map": dict(sorted(weight_map.items()))}
    (source / "model.safetensors.index.json").write_text(json.dumps(index, indent=2))
    for config in (HERE / "headers" / name).glob("*.json"):
        (source / config.name).write_bytes(config.read_bytes())


def values(name: str, length: int) -> bytes:
    """Make the bytes of a tensor from its name, so that a tensor under a wrong name is seen."""
    seed = hashlib.sha256(name.encode()).digest()
    return (seed * (length // len(seed) + 1))[:length]


def content(file: dict[str, Any]) -> bytes:
    """Make the bytes of a file that is described by tensors, a header, text or hex digits."""
    if "text" in file:
        return str(file["text"]).encode()
    if "hex" in file:
        return bytes.fromhex(str(file["hex"]))
    if "header" in file:
        raw = str(file["header"]).encode()
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
