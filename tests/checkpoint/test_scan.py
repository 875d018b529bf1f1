"""A directory read as a checkpoint."""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING

import pytest

from remapfs import IndexMode, RemapError, read_checkpoint
from situations import shard

if TYPE_CHECKING:
    from pathlib import Path

LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 4900000000\n"


def refusal(folder: Path) -> tuple[str, str]:
    """Give message and hint of a refusal."""
    with pytest.raises(RemapError) as caught:
        read_checkpoint(folder)
    return caught.value.message, caught.value.hint


@pytest.mark.parametrize(
    ("content", "message", "hint"),
    [
        (b"", "m.safetensors is empty", "interrupted download"),
        (
            LFS,
            f"m.safetensors is a Git LFS pointer ({len(LFS)} bytes) to 4.9 GB that was never downloaded",
            "git lfs pull",
        ),
        (
            b"\n<!DOCTYPE html><html></html>",
            "m.safetensors is a web page (29 bytes), not tensors",
            "licence",
        ),
        (b"<?xml version='1.0'?><Error/>", "m.safetensors is a web page (29 bytes), not tensors", "log in"),
        (b"PK\3\4", r"m.safetensors is not a safetensors file: it starts with b'PK\x03\x04'", "fetch"),
        (
            b"x" * 20,
            "m.safetensors is not a safetensors file: it starts with b'xxxxxxxxxxxxxxxx'",
            "fetch",
        ),
        (
            struct.pack("<Q", 500) + b'{"a":',
            "m.safetensors is truncated: its header takes 508 bytes but the file has 13",
            "interrupted download",
        ),
        (
            struct.pack("<Q", 200_000_000) + b'{"a":',
            "m.safetensors has a header of 200,000,000 bytes; the format allows 100,000,000",
            "split the shard",
        ),
    ],
    ids=["empty", "lfs", "html", "xml", "zip", "junk", "truncated", "large"],
)
def test_what_is_no_shard_is_told_by_what_it_is(
    tmp_path: Path, content: bytes, message: str, hint: str
) -> None:
    """And what to do about it."""
    (tmp_path / "m.safetensors").write_bytes(content)
    found, advice = refusal(tmp_path)
    assert found == message
    assert hint in advice


def test_a_source_that_is_no_checkpoint(tmp_path: Path) -> None:
    """Missing, a file, or a directory without shards."""
    with pytest.raises(RemapError, match="does not exist"):
        read_checkpoint(tmp_path / "none")
    (tmp_path / "file").write_text("x")
    with pytest.raises(RemapError, match="is not a directory"):
        read_checkpoint(tmp_path / "file")
    with pytest.raises(RemapError, match=r"^no \*.safetensors file in "):
        read_checkpoint(tmp_path)


def test_scope_is_what_the_index_lists_or_all_where_there_is_none(tmp_path: Path) -> None:
    """Each folder for itself; a shard is what an index lists, whatever its suffix."""
    for path, name in (("m.bin", "a"), ("other.safetensors", "b"), ("vae/m.safetensors", "c")):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_bytes(shard({"tensors": [[name, "U8", [2]]]}))
    index = {"weight_map": {"a": "m.bin"}}
    (tmp_path / "m.safetensors.index.json").write_text(json.dumps(index))
    found = read_checkpoint(tmp_path)
    assert [(one.file.path, one.namespace, one.indexed) for one in found.shards] == [
        ("m.bin", "m.safetensors.index.json", True),
        ("vae/m.safetensors", "vae", False),
    ]
    assert [note.file for note in found.notes] == ["other.safetensors"]
    everything = read_checkpoint(tmp_path, mode=IndexMode.REBUILD)
    assert [one.file.path for one in everything.shards] == ["m.bin", "other.safetensors", "vae/m.safetensors"]


def test_what_is_odd_is_noted_and_makes_a_shard_inexact(tmp_path: Path) -> None:
    """A new header will be written for it."""
    (tmp_path / "m.safetensors").write_bytes(shard({"tensors": [["a", "U8", [2]]], "trailing": 3}))
    found = read_checkpoint(tmp_path)
    assert not found.shards[0].exact
    assert [(note.text, note.healed) for note in found.notes] == [("3 trailing bytes ignored", True)]


def test_documents_are_the_configs_and_what_is_asked_for(tmp_path: Path) -> None:
    """By their paths; one that is not there is not an error here."""
    (tmp_path / "m.safetensors").write_bytes(shard({"tensors": []}))
    for name in ("config.json", "tokenizer.json", "hf_quant_config.json", "extra.json"):
        (tmp_path / name).write_text("{}")
    found = read_checkpoint(tmp_path, documents=["extra.json", "none.json"])
    assert list(found.documents) == ["config.json", "extra.json", "hf_quant_config.json"]
