"""An index and the headers of its shards."""

from __future__ import annotations

import json

import pytest

from remapfs import IndexMode, RemapError
from remapfs.checkpoint import Attributes, File, Index, Source
from remapfs.checkpoint.header import Header, Tensor
from remapfs.checkpoint.index import parse_index, reconcile

PATH = "deep/model.safetensors.index.json"
FILE = File(PATH, Source("/" + PATH, 0, 0, 0, 0), Attributes(0o444, 0, 0, 0))
STRICT, AUTHORITATIVE, REBUILD = IndexMode.STRICT, IndexMode.AUTHORITATIVE, IndexMode.REBUILD


def index(weight_map: dict[str, str]) -> Index:
    """Parse an index with this map."""
    return parse_index(FILE, json.dumps({"metadata": {}, "weight_map": weight_map}).encode())


def headers(**shards: str) -> dict[str, Header]:
    """Make headers: each shard's tensors are letters."""
    return {
        f"deep/{shard}": Header(2, None, tuple(Tensor(name, "U8", (0,), 0, 0) for name in names), (), ())
        for shard, names in shards.items()
    }


def refusal(found: Index, of: dict[str, Header], mode: IndexMode) -> tuple[str, str]:
    """Give message and hint of a refusal."""
    with pytest.raises(RemapError) as caught:
        reconcile(found, of, mode)
    return caught.value.message, caught.value.hint


def test_paths_are_relative_to_the_root_and_keep_their_spelling() -> None:
    """What the index calls a shard is kept for writing it again."""
    found = index({"a": "./s1", "b": "sub/s2", "c": "../s3"})
    assert found.weight_map == {"a": "deep/s1", "b": "deep/sub/s2", "c": "s3"}
    assert found.spelling == {"deep/s1": "./s1", "deep/sub/s2": "sub/s2", "s3": "../s3"}


@pytest.mark.parametrize("shard", ["../../s", "/s"])
def test_a_shard_outside_the_checkpoint_is_refused(shard: str) -> None:
    """It could be anything."""
    with pytest.raises(RemapError, match=f"names the shard '{shard}', outside the checkpoint"):
        index({"a": shard})


@pytest.mark.parametrize(
    ("text", "indent", "newline"),
    [
        ('{\n  "weight_map": {}\n}\n', 2, True),
        ('{\n    "weight_map": {}\n}', 4, False),
        ('{"weight_map": {}}', None, False),
    ],
)
def test_the_form_is_remembered(text: str, indent: int | None, *, newline: bool) -> None:
    """Indentation and final newline."""
    found = parse_index(FILE, text.encode())
    assert (found.indent, found.final_newline) == (indent, newline)


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"weight_map": []}', '{"weight_map": {"a": 1}}'])
def test_what_is_no_index_is_refused(text: str) -> None:
    """By the name of the file."""
    with pytest.raises(RemapError, match=PATH):
        parse_index(FILE, text.encode())


def test_a_name_that_stands_twice_is_refused() -> None:
    """Readers disagree on which one counts."""
    text = '{"weight_map": {"a": "1.safetensors", "a": "2.safetensors"}}'
    with pytest.raises(RemapError, match="has the key 'a' twice"):
        parse_index(FILE, text.encode())


@pytest.mark.parametrize("mode", [STRICT, AUTHORITATIVE])
def test_what_agrees_stays(mode: IndexMode) -> None:
    """Nothing is hidden, nothing noted; the names are the headers' own objects."""
    before = index({"a": "s1", "b": "s2"})
    after, hidden, notes = reconcile(before, headers(s1="a", s2="b"), mode)
    assert (after, hidden, notes) == (before, {}, [])


@pytest.mark.parametrize("mode", [STRICT, AUTHORITATIVE])
def test_shards_that_are_not_there(mode: IndexMode) -> None:
    """With their number and that of their tensors."""
    assert refusal(index({"a": "s1", "b": "s2", "c": "s2"}), headers(s1="a"), mode) == (
        f"{PATH} names 1 shard that are not there (2 tensors): deep/s2",
        "an incomplete download? fetch them; to do without them: --index rebuild",
    )


@pytest.mark.parametrize("mode", [STRICT, AUTHORITATIVE])
def test_entries_without_tensors(mode: IndexMode) -> None:
    """The shard is there, the tensor is not."""
    message, hint = refusal(index({"a": "s1", "b": "s1"}), headers(s1="a"), mode)
    assert message == f"{PATH} gives 1 tensor to shards that do not have them: 'b' in deep/s1"
    assert hint.endswith("--index rebuild")


def test_a_tensor_that_the_index_does_not_give_to_its_shard() -> None:
    """Refused, hidden, or indexed, as is asked for."""
    before = index({"a": "s1", "b": "s2"})
    of = headers(s1="a", s2="bac")
    message, _ = refusal(before, of, STRICT)
    assert message == (
        f"2 tensors in other shards than {PATH} says: 'a' in deep/s2 (the index says deep/s1), "
        "'c' in deep/s2 (not in the index)"
    )
    after, hidden, notes = reconcile(before, of, AUTHORITATIVE)
    assert after == before
    assert hidden == {"deep/s2": {"a", "c"}}
    assert [(note.file, note.healed) for note in notes] == [("deep/s2", True)]
    message, hint = refusal(before, of, REBUILD)
    assert message.startswith("'a' is stored twice, in deep/s1 and in deep/s2")
    assert "--index authoritative" in hint


def test_a_rebuilt_index_is_what_the_headers_say() -> None:
    """Sorted by name; what was lost is noted."""
    before = index({"b": "./s1", "gone": "s3", "lost": "./s1"})
    after, hidden, notes = reconcile(before, headers(s1="b", s2="ca"), REBUILD)
    assert list(after.weight_map.items()) == [("a", "deep/s2"), ("b", "deep/s1"), ("c", "deep/s2")]
    assert after.spelling == {"deep/s1": "./s1", "deep/s2": "s2"}
    assert (after.exact, hidden) == (False, {})
    assert [(note.text, note.healed) for note in notes] == [
        ("derived anew from the headers of 2 shards", True),
        ("1 shard not there, 1 tensor lost: deep/s3", False),
    ]


def test_long_lists_are_shortened() -> None:
    """Five, and how many more."""
    message, _ = refusal(index({name: f"s{name}" for name in "abcdefgh"}), {}, STRICT)
    assert message.endswith("deep/sa, deep/sb, deep/sc, deep/sd, deep/se and 3 more")
