"""Plans of small checkpoints written to a directory."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from remapfs import Plan, RemapError, make_plan, read_checkpoint
from remapfs.rules import parse_rules
from situations import shard

if TYPE_CHECKING:
    from pathlib import Path

INDEX = "model.safetensors.index.json"


def write(folder: Path, shards: dict[str, dict[str, str]], *, indexed: bool = False) -> None:
    """Write shards of two-byte-wide tensors given as names and dtypes, by file, and an index if asked for."""
    for path, tensors in shards.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        described: list[list[Any]] = [[name, dtype, [2]] for name, dtype in tensors.items()]
        (folder / path).write_bytes(shard({"tensors": described}))
    if indexed:
        weight_map = {name: path for path, tensors in shards.items() for name in tensors}
        (folder / INDEX).write_text(json.dumps({"weight_map": weight_map}))


def plan(folder: Path, rules: str = "", *, force: bool = False) -> Plan:
    """Plan a directory under rules given as text."""
    parsed = parse_rules(rules, "rules.toml")
    checkpoint = read_checkpoint(
        folder, hides=parsed.hides, documents=parsed.documents, unindexed=parsed.unindexed
    )
    return make_plan(checkpoint, parsed, force=force)


def refusal(folder: Path, rules: str) -> tuple[str, str]:
    """Give message and hint of a refusal."""
    with pytest.raises(RemapError) as caught:
        plan(folder, rules)
    return caught.value.message, caught.value.hint


def findings(made: Plan) -> list[tuple[str, str, str]]:
    """Give the findings as (kind, file, text)."""
    return [(finding.kind.value, finding.file, finding.text) for finding in made.findings]
