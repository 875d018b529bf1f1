"""Reading what is wanted."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from remapfs import RemapError
from remapfs.check import Wanted, read_reference
from situations import shard

if TYPE_CHECKING:
    from pathlib import Path

INDEX = "model.safetensors.index.json"
NAME = Wanted(None, None)


def test_a_directory_gives_names_shapes_and_dtypes(tmp_path: Path) -> None:
    """They come from its headers."""
    (tmp_path / "a.safetensors").write_bytes(shard({"tensors": [["x", "BF16", [2, 3]]]}))
    assert read_reference(str(tmp_path)).tensors == {"x": Wanted("BF16", (2, 3))}


def test_a_single_shard_can_be_the_reference(tmp_path: Path) -> None:
    """Its header is read."""
    (tmp_path / "a.safetensors").write_bytes(shard({"tensors": [["x", "F32", []]]}))
    assert read_reference(str(tmp_path / "a.safetensors")).tensors == {"x": Wanted("F32", ())}


def test_an_index_gives_names(tmp_path: Path) -> None:
    """Shapes are not known."""
    (tmp_path / INDEX).write_text(json.dumps({"weight_map": {"x": "a.safetensors"}}))
    assert read_reference(str(tmp_path / INDEX)).tensors == {"x": NAME}


def test_a_directory_without_its_shards_gives_the_names_of_its_index(tmp_path: Path) -> None:
    """An engineer downloads the index alone; a note says that shapes were not compared."""
    (tmp_path / INDEX).write_text(json.dumps({"weight_map": {"x": "a.safetensors", "y": "b.safetensors"}}))
    (tmp_path / "a.safetensors").write_bytes(shard({"tensors": [["x", "F32", [1]]]}))
    reference = read_reference(str(tmp_path))
    assert reference.tensors == {"x": NAME, "y": NAME}
    assert reference.notes == (
        f"1 shard of {tmp_path} not there: only names were compared, not shapes or dtypes",
    )


def test_a_text_file_gives_a_name_a_line(tmp_path: Path) -> None:
    """Empty lines and comments are left out."""
    (tmp_path / "names").write_text("# wanted\n\na.weight\n  b.weight\n")
    assert read_reference(str(tmp_path / "names")).tensors == {"a.weight": NAME, "b.weight": NAME}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "names no tensor"),
        (b"# nothing\n", "names no tensor"),
        (b"\xff\xfe\x00", "is neither an index nor a text file of names"),
        (b"a.weight\nthis is prose\n", "has a line that is no tensor name: 'this is prose'"),
        (b'{"weights": 1}', "has no 'weight_map'"),
        (b'{"weight_map": ', "is not JSON"),
    ],
)
def test_what_is_no_reference_is_refused(content: bytes, message: str, tmp_path: Path) -> None:
    """The message says what was found instead."""
    (tmp_path / "ref").write_bytes(content)
    with pytest.raises(RemapError, match=message) as caught:
        read_reference(str(tmp_path / "ref"))
    assert caught.value.hint


def test_a_reference_that_is_not_there_is_refused(tmp_path: Path) -> None:
    """The hint lists what can be given."""
    with pytest.raises(RemapError, match="No such file") as caught:
        read_reference(str(tmp_path / "none"))
    assert "checkpoint directory" in caught.value.hint
