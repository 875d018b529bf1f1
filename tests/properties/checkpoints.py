"""Random checkpoints on disk, and random rules for them."""

from __future__ import annotations

import json
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

from hypothesis import reject
from hypothesis import strategies as st

from remapfs import Plan, RemapError, make_plan, read_checkpoint
from remapfs.rules import parse_rules
from situations import values

if TYPE_CHECKING:
    from collections.abc import Iterator

INDEX = "model.safetensors.index.json"
_BITS = {"F4": 4, "F6_E2M3": 6, "BOOL": 8, "U8": 8, "F8_E4M3": 8, "BF16": 16, "F32": 32, "I64": 64}
_WORDS = ("model", "layers", "attn", "q_proj", "weight", "w1", "scale", "vé", 'a "b', "back\\slash", "tab\t")


@dataclass(frozen=True, slots=True)
class Entry:
    """A tensor, and how many bytes that belong to none stand before it."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    gap: int

    @property
    def data(self) -> bytes:
        """Its bytes, which no tensor of another name has."""
        return values(self.name, prod(self.shape) * _BITS[self.dtype] // 8)


@dataclass(frozen=True, slots=True)
class ShardFile:
    """A shard to write."""

    path: str
    entries: tuple[Entry, ...]
    metadata: dict[str, str] | None
    padding: int
    trailing: int

    @property
    def content(self) -> bytes:
        """The whole file."""
        header: dict[str, object] = {} if self.metadata is None else {"__metadata__": self.metadata}
        data = b""
        for entry in self.entries:
            data += b"\xee" * entry.gap
            end = len(data) + len(entry.data)
            header[entry.name] = {
                "dtype": entry.dtype,
                "shape": entry.shape,
                "data_offsets": [len(data), end],
            }
            data += entry.data
        raw = json.dumps(header, separators=(",", ":")).encode() + b" " * self.padding
        return len(raw).to_bytes(8, "little") + raw + data + b"\xee" * self.trailing


@dataclass(frozen=True, slots=True)
class Sample:
    """A checkpoint to write and the rules to present it by."""

    shards: tuple[ShardFile, ...]
    indexed: bool
    rules: str

    @property
    def entries(self) -> dict[str, Entry]:
        """All tensors by name."""
        return {entry.name: entry for shard in self.shards for entry in shard.entries}

    def plan(self, root: Path) -> Plan:
        """Plan it as it stands on disk; what the rules make impossible is no sample."""
        try:
            return make_plan(read_checkpoint(root), parse_rules(self.rules, "rules.toml"))
        except RemapError as error:
            if "would both be named" in error.message or "an empty name" in error.message:
                reject()
            raise

    @contextmanager
    def on_disk(self) -> Iterator[Path]:
        """Write it to a directory of its own."""
        with tempfile.TemporaryDirectory(prefix="remapfs-test-") as folder:
            root = Path(folder).resolve()
            for shard in self.shards:
                (root / shard.path).write_bytes(shard.content)
            if self.indexed:
                weight_map = {entry.name: shard.path for shard in self.shards for entry in shard.entries}
                index = {"metadata": {"total_size": 1}, "weight_map": weight_map}
                (root / INDEX).write_text(json.dumps(index, indent=2), encoding="utf-8")
            yield root


_names = st.lists(
    st.sampled_from(_WORDS) | st.integers(0, 12).map(str) | st.text("ab.é\U0001f600", min_size=1, max_size=3),
    min_size=1,
    max_size=5,
).map(".".join)
_metadata = st.none() | st.dictionaries(st.sampled_from(["format", "é t"]), st.sampled_from(["pt", "", "{"]))
_few_bytes = st.sampled_from([0, 0, 0, 1, 7, 4096])


@st.composite
def _entries(draw: st.DrawFn, name: str) -> Entry:
    dtype = draw(st.sampled_from(sorted(_BITS)))
    shape = draw(st.lists(st.integers(0, 5), max_size=3))
    # Sub-byte elements come in whole bytes.
    if prod(shape) * _BITS[dtype] % 8:
        shape.append(4)
    return Entry(name, dtype, tuple(shape), draw(_few_bytes))


@st.composite
def _rules(draw: st.DrawFn, names: list[str]) -> str:
    text = draw(st.sampled_from(names) | st.sampled_from(["model.", "layers", ".", "1", "e", "weight"]))
    cut = draw(st.integers(0, max(len(text) - 1, 0)))
    pattern = draw(
        st.sampled_from(
            [
                ("prefix", text),
                ("suffix", text),
                ("suffix", text[cut:] or text),
                ("prefix", text[: cut + 1]),
                ("substring", text),
                ("match", r"^model\.(\w+)\."),
                ("match", r"\.(\d+)\."),
                ("match", r"(.)$"),
            ]
        )
    )
    to = draw(st.sampled_from(["model.", "", "x", 'new "name".', "é." * 40]))
    kind = draw(st.sampled_from(["rename", "rename", "rename", "drop", "alias"]))
    if kind == "alias":
        return f"[[alias]]\nname = {_quote(text)}\nas = {_quote(to + text + '.again')}\n"
    rule = f"[[{kind}]]\n{pattern[0]} = {_quote(pattern[1])}\n"
    if kind == "rename":
        target = to + draw(st.sampled_from(["", r"\1"])) if pattern[0] == "match" else to
        rule += f"to = {_quote(target)}\n"
    return rule


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


@st.composite
def samples(draw: st.DrawFn) -> Sample:
    """Make shards with distinct tensors, an index or none, and rules that need not match."""
    names = draw(st.lists(_names, min_size=1, max_size=8, unique=True))
    count = draw(st.integers(1, 3))
    placed = [draw(st.integers(0, count - 1)) for _ in names]
    shards = tuple(
        ShardFile(
            f"model-{number}.safetensors",
            tuple(draw(_entries(name)) for name, place in zip(names, placed, strict=True) if place == number),
            draw(_metadata),
            draw(_few_bytes),
            draw(_few_bytes),
        )
        for number in range(count)
    )
    indexed = draw(st.booleans()) and all(shard.entries for shard in shards)
    rules = "".join(draw(st.lists(_rules(names), max_size=4)))
    return Sample(shards, indexed, "optional = true\n" + rules)
