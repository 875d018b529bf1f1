"""Where module names stand in quantisation configs."""

from __future__ import annotations

import pytest

from remapfs.checkpoint.quantization import map_modules


def rename(name: str) -> list[str]:
    """Swap a prefix; one name becomes two, and one none."""
    many = {"m.two": ["x.one", "x.two"], "m.none": []}
    return many.get(name, [name.replace("m.", "x.")])


@pytest.mark.parametrize("outer", ["quantization_config", "compression_config", "quantization"])
@pytest.mark.parametrize("key", ["ignore", "exclude_modules", "modules_to_not_convert", "ignored_layers"])
def test_lists_of_modules(outer: str, key: str) -> None:
    """In order, each once; what is no text stays."""
    document = {outer: {key: ["m.a", "m.two", "x.one", "m.none"]}, key: ["m.a"]}
    assert map_modules(document, rename) == {outer: {key: ["x.a", "x.one", "x.two"]}, key: ["m.a"]}
    assert map_modules({outer: {key: [1, "m.a", 1]}}, rename) == {outer: {key: [1, "x.a", 1]}}
    assert map_modules({outer: {key: None}}, rename) == {outer: {key: None}}


@pytest.mark.parametrize("key", ["quantized_layers", "layer_quant_config", "extra_config"])
def test_tables_keyed_by_modules(key: str) -> None:
    """Each new name has what the old one had."""
    document = {"quantization": {key: {"m.a": {"bits": 4}, "m.two": 1}}}
    assert map_modules(document, rename) == {
        "quantization": {key: {"x.a": {"bits": 4}, "x.one": 1, "x.two": 1}}
    }


def test_targets_of_groups() -> None:
    """A class of modules has neither dot nor wildcard, and is no name."""
    groups = {"g": {"targets": ["Linear", "m.a", "m.*"], "weights": {"m.a": 1}}, "h": {"targets": None}}
    document = {"quantization_config": {"config_groups": groups}}
    assert map_modules(document, rename)["quantization_config"]["config_groups"] == {
        "g": {"targets": ["Linear", "x.a", "x.*"], "weights": {"m.a": 1}},
        "h": {"targets": None},
    }


@pytest.mark.parametrize(
    ("before", "after"), [("m.a,m.b", "x.a,x.b"), (["m.a", "m.b"], ["x.a", "x.b"]), (None, None), (3, 3)]
)
def test_blocks_to_quantise(before: object, after: object) -> None:
    """A list, or its items with commas."""
    document = {"quantization_config": {"block_name_to_quantize": before}}
    assert map_modules(document, rename) == {"quantization_config": {"block_name_to_quantize": after}}


def test_configs_inside_configs() -> None:
    """A multimodal config has one a component."""
    document = {"text_config": {"quantization_config": {"ignore": ["m.a"]}}, "a": [{"ignore": ["m.a"]}]}
    assert map_modules(document, rename) == {
        "text_config": {"quantization_config": {"ignore": ["x.a"]}},
        "a": [{"ignore": ["m.a"]}],
    }


@pytest.mark.parametrize("document", [None, 1, "m.a", ["m.a"], {"quantization_config": "m.a"}, {}])
def test_what_has_no_names_stays(document: object) -> None:
    """Whatever JSON it is."""
    assert map_modules(document, rename) == document
