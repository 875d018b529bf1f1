"""Checkpoints to export, and what an export of them must hold."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from remapfs import make_plan, open_file, read_checkpoint
from remapfs.present.reflink.state import STATE
from remapfs.rules import parse_rules
from situations import values

if TYPE_CHECKING:
    from pathlib import Path

    from remapfs import Plan

RENAME = '[[rename]]\nprefix = "model."\nto = "language_model."\n'
DROP = f'{RENAME}\n[[drop]]\nmatch = "small$"\n'
LARGE = 3 << 20


def write_source(root: Path, shards: int = 2) -> Path:
    """Write shards of a large tensor, a small one and a large one, an untouched shard and other files."""
    (root / "sub").mkdir(parents=True)
    for number in range(shards):
        _write_shard(root / f"m-{number}.safetensors", f"model.{number}")
    _write_shard(root / "other.safetensors", "vision")
    (root / "config.json").write_text('{"architectures": ["A"]}')
    (root / "sub" / "notes.txt").write_bytes(values("notes", 10_001))
    (root / "empty").touch()
    for name in ("m-0.safetensors", "sub/notes.txt"):
        os.utime(root / name, ns=(10**18 + 7, 10**18 + 7))
    return root.resolve()


def _write_shard(path: Path, prefix: str) -> None:
    header, data = {}, b""
    for name, length in ((f"{prefix}.a", LARGE + 5), (f"{prefix}.small", 3), (f"{prefix}.z", LARGE)):
        header[name] = {"dtype": "U8", "shape": [length], "data_offsets": [len(data), len(data) + length]}
        data += values(name, length)
    raw = json.dumps(header).encode()
    path.write_bytes(len(raw).to_bytes(8, "little") + raw + data)


def plan_of(source: Path, rules: str = RENAME) -> Plan:
    """Plan with the text of a rules file."""
    return make_plan(read_checkpoint(str(source)), parse_rules(rules, "rules.toml"))


def assert_exported(plan: Plan, directory: Path) -> None:
    """Compare a directory with what the Python reader gives; nothing else may be there but the state."""
    found = {
        str(path.relative_to(directory)): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file() and path != directory / STATE
    }
    wanted = {}
    for file in plan.files:
        with open_file(file) as stream:
            wanted[file.path] = stream.read()
    assert found.keys() == wanted.keys()
    assert [path for path in found if found[path] != wanted[path]] == []
