"""Names inside a header's metadata."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remapfs.plan.metadata import rename_metadata

OLD = ["model.a.weight", "model.a.bias", "model.b.weight", "kept"]
NEW: list[str | None] = ["a.weight", "a.bias", None, "kept"]


@pytest.mark.parametrize("metadata", [None, {}, {"format": "pt"}])
def test_what_has_no_names_is_the_same_object(metadata: dict[str, str] | None) -> None:
    """Absent, empty or without a name: nothing becomes something else."""
    assert rename_metadata(metadata, OLD, NEW) == metadata


def test_nothing_renamed_changes_nothing() -> None:
    """Not even where a value is a name."""
    metadata = {"model.a.weight": '{"model.a.weight": 1}'}
    assert rename_metadata(metadata, OLD, list(OLD)) is metadata


def test_names_as_keys_items_and_keys_of_values() -> None:
    """As torchao and torch's distributed checkpoints write them."""
    metadata = {
        "tensor_names": '["model.a.weight", "kept"]',
        "DCP_SHARDING_INFO": '{"model.a.weight":{"offset":[0]}}',
        "model.a.weight": "what it is",
    }
    assert rename_metadata(metadata, OLD, NEW) == {
        "tensor_names": '["a.weight", "kept"]',
        "DCP_SHARDING_INFO": '{"a.weight":{"offset":[0]}}',
        "a.weight": "what it is",
    }


def test_the_name_that_a_group_of_tensors_starts_with() -> None:
    """`model.a` became `a` with all that is in it; where the members part, it stays."""
    assert rename_metadata({"model.a": "q"}, OLD, NEW) == {"a": "q"}
    parted: list[str | None] = ["x.weight", "y.bias", None, "kept"]
    assert rename_metadata({"model.a": "q"}, OLD, parted) == {"model.a": "q"}
    old = ["t:qdata", "t:scale"]
    assert rename_metadata({"n": '["t"]'}, old, ["u:qdata", "u:scale"]) == {"n": '["u"]'}


def test_a_dropped_tensor_s_name_stays() -> None:
    """It is the only trace of it."""
    assert rename_metadata({"n": '["model.b.weight"]'}, OLD, NEW) == {"n": '["model.b.weight"]'}


@pytest.mark.parametrize(
    "value",
    [
        "model.a.weight",
        "",
        "{",
        '["no name"]',
        '{ "x":  1.0 }',
        '[1, 2.50, null, {"model.a.weight": 1}]',
        "7",
    ],
)
def test_a_value_without_a_name_in_its_place_keeps_its_bytes(value: str) -> None:
    """Text that only looks like a name, JSON that is none, names deeper than exporters write them."""
    assert rename_metadata({"k": value}, OLD, NEW) == {"k": value}


def test_a_value_is_written_in_its_own_manner() -> None:
    """Compact or spaced, ASCII or not."""
    old, new = ["a", "b"], ["é", "b"]
    written = rename_metadata({"c": '["a","b"]', "s": '["a", "b"]', "u": '["a", "ü"]'}, old, new)
    assert written == {"c": '["\\u00e9","b"]', "s": '["\\u00e9", "b"]', "u": '["é", "ü"]'}


def test_a_value_is_not_lost_where_a_key_becomes_another_s() -> None:
    """The key stays where its new name is taken by a key that is no tensor's."""
    metadata = {"model.a.weight": "first", "a.weight": "second"}
    renamed = rename_metadata(metadata, OLD, NEW)
    assert renamed is not None
    assert sorted(renamed.values()) == ["first", "second"]
    inside = rename_metadata({"k": json.dumps(metadata)}, OLD, NEW)
    assert inside is not None
    assert sorted(json.loads(inside["k"]).values()) == ["first", "second"]


_TEXTS = st.sampled_from([*OLD, "model.a", "model", "a.weight", "x", '["model.a.weight"]', "{"])


@settings(deadline=None, max_examples=100)
@given(st.dictionaries(_TEXTS, _TEXTS | st.lists(_TEXTS).map(json.dumps)))
def test_no_entry_is_lost(metadata: dict[str, str]) -> None:
    """Whatever the keys: as many values come out as went in."""
    renamed = rename_metadata(metadata, OLD, NEW)
    assert renamed is not None
    assert len(renamed) == len(metadata)
