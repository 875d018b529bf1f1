"""A plan in a few lines, and as stable text."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

from plan.planning import plan, write
from remapfs.plan import Literal, dump, summarise
from remapfs.plan.summary import NamePattern

if TYPE_CHECKING:
    from pathlib import Path

RULES = """
[[rename]]
prefix = 'model.'
to = ''
[[drop]]
suffix = '.k_scale'
[[alias]]
name = 'embed'
as = 'the head'
"""
TENSORS = {f"model.l.{n}.w": "U8" for n in range(3)} | {
    "model.embed": "BF16",
    "x.k_scale": "F32",
    "same": "U8",
}


def test_a_summary_groups_names_by_what_becomes_of_them(tmp_path: Path) -> None:
    """Sorted by the old name, with numbers of tensors and bytes; dropped ones are not presented."""
    write(tmp_path, {"a.safetensors": TENSORS})
    summary = summarise(plan(tmp_path, RULES))
    assert summary.renamed == (
        NamePattern("model.embed", "embed", 1, 4),
        NamePattern("model.l.{0-2}.w", "l.{}.w", 3, 6),
    )
    assert summary.dropped == (NamePattern("x.k_scale", None, 1, 8),)
    assert summary.aliased == (NamePattern("model.embed", "the head", 1, 4),)
    assert summary.untouched == (NamePattern("same", "same", 1, 2),)
    assert (summary.tensors, summary.length, summary.shards) == (6, 16, 1)


def test_a_dump_has_everything_but_what_differs_between_copies(tmp_path: Path) -> None:
    """Directories, files, extents, names, rules and findings, one a line."""
    write(tmp_path, {"a.safetensors": TENSORS})
    (tmp_path / "deep dir").mkdir()
    (tmp_path / "deep dir" / "é.txt").write_text("x")
    made = plan(tmp_path, RULES)
    literal = made.files[0].extents[0]
    assert isinstance(literal, Literal)
    start = literal.length
    lines = list(dump(made))
    assert lines[:5] == [
        "remapfs plan 1",
        'directory "deep dir"',
        f"file a.safetensors {made.files[0].size}",
        f"  literal {start} sha256:{hashlib.sha256(literal.data).hexdigest()}",
        f"  slice a.safetensors {made.shards[0].shard.header.data_start} 10",
    ]
    assert lines[5:] == [
        f"  slice a.safetensors {made.shards[0].shard.header.data_start + 18} 2",
        f"  slice a.safetensors {made.shards[0].shard.header.data_start + 6} 4",
        "  name model.l.0.w l.0.w",
        "  name model.l.1.w l.1.w",
        "  name model.l.2.w l.2.w",
        "  name model.embed embed",
        "  drop x.k_scale",
        '  alias model.embed "the head"',
        'file "deep dir/\\u00e9.txt" 1',
        '  slice "deep dir/\\u00e9.txt" 0 1',
        "rule rename rule 1 in rules.toml (line 2): 4",
        "rule drop rule 1 in rules.toml (line 5): 1",
        "rule alias rule 1 in rules.toml (line 7): 1",
    ]
    assert not any(str(tmp_path) in line for line in lines)


def test_a_file_that_nothing_changes_is_one_slice(tmp_path: Path) -> None:
    """And its tensors are not listed."""
    write(tmp_path, {"a.safetensors": TENSORS}, indexed=True)
    lines = list(dump(plan(tmp_path)))
    assert len(lines) == 5
    assert all(re.match(r"file |  slice \S+ 0 \d+$|remapfs plan 1", line) for line in lines)
