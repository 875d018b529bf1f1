"""Headers of 99,990 to 100,010 bytes.

Readers that fetch the first 100,000 bytes of a file and take the header from them have gone wrong here.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
import safetensors

from remapfs import make_plan, open_file, read_checkpoint
from remapfs.plan import Literal, Slice
from remapfs.rules import parse_rules
from situations import values

if TYPE_CHECKING:
    from pathlib import Path

    from remapfs.plan import VirtualFile

LENGTHS = range(99_990, 100_011)
LONGER = "[[rename]]\nprefix = 'a'\nto = '" + "b" * 3000 + "'\n"


def present(folder: Path, length: int, rules: str, *, full: bool) -> VirtualFile:
    """Present a shard whose header has `length` bytes, of text if `full`, or else padded to it."""
    entries = {
        name: {"dtype": "U8", "shape": [5000], "data_offsets": [number * 5000, (number + 1) * 5000]}
        for number, name in enumerate(("a.x", "c.x"))
    }
    text = json.dumps(entries, separators=(",", ":"))
    if full:
        filler = {"note": "n" * (length - len(text) - len('"__metadata__":{"note":""},'))}
        text = json.dumps({"__metadata__": filler, **entries}, separators=(",", ":"))
        assert len(text) == length
    raw = text.encode().ljust(length)
    content = length.to_bytes(8, "little") + raw + values("a.x", 5000) + values("c.x", 5000)
    (folder / "model.safetensors").write_bytes(content)
    return make_plan(read_checkpoint(folder), parse_rules(rules, "rules.toml")).files[0]


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize(
    ("rules", "full", "grown"),
    [
        ("[[rename]]\nprefix = 'a'\nto = 'b'\n", False, 0),
        ("[[rename]]\nprefix = 'a'\nto = 'b'\n", True, 0),
        ("[[rename]]\nprefix = 'a'\nto = 'bb'\n", True, 4096),
        (LONGER, False, 0),
        (LONGER, True, 4096),
    ],
    ids=["padded", "full", "full-one-more", "padded-longer", "full-longer"],
)
def test_reads_are_right_across_the_boundary(
    tmp_path: Path, length: int, rules: str, *, full: bool, grown: int
) -> None:
    """Header and data meet where they should, and reads that cross the seam are whole."""
    file = present(tmp_path, length, rules, full=full)
    literal, data = file.extents
    assert isinstance(literal, Literal)
    assert isinstance(data, Slice)
    assert literal.length == 8 + length + grown
    assert (literal.length - (8 + length)) % 4096 == 0
    content = literal.data + values("a.x", 5000) + values("c.x", 5000)
    with open_file(file) as stream:
        assert stream.read() == content
        for start in (literal.length - 9, literal.length - 1, literal.length, 100_000, 99_999):
            for size in (1, 2, 10, 4096):
                stream.seek(start)
                assert stream.read(size) == content[start : start + size]
    found = dict(safetensors.deserialize(content))  # type: ignore[no-untyped-call]  # in Rust
    assert [bytes(found[name]["data"]) for name in sorted(found)] == [
        values("a.x", 5000),
        values("c.x", 5000),
    ]


def test_a_header_that_becomes_this_long_is_read_right(tmp_path: Path) -> None:
    """A rule that makes a header end at each length around the boundary."""
    for length in LENGTHS:
        # The source's header is full and one page shorter, so that a longer name makes it as long as that.
        file = present(tmp_path, length - 4096, LONGER, full=True)
        assert file.extents[0].length == 8 + length
        with open_file(file) as stream:
            content = stream.read()
        assert dict(safetensors.deserialize(content)).keys() == {"b" * 3000 + ".x", "c.x"}  # type: ignore[no-untyped-call]  # in Rust
