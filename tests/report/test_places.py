"""Where a tensor stands in the grid."""

from __future__ import annotations

import pytest

from remapfs.report.places import places
from report.making import grouped


def _place(*names: str) -> tuple[str, object, str, object, str, str]:
    """Place the first of these tensors."""
    made = grouped((name, name) for name in names)
    by_name = {str(family.name): place for family, place in zip(made, places(made), strict=True)}
    return tuple(by_name[str((names[0],))])  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("layers.17.attn.wq_a.weight", ("layers", "17", "attn.wq_a", None, "", "weight")),
        ("layers.17.attn_norm.weight", ("layers", "17", "attn_norm", None, "", "weight")),
        ("layers.17.hc_attn_base", ("layers", "17", "hc_attn_base", None, "", "")),
        ("layers.17.ffn.experts.200.w1.weight", ("layers", "17", "ffn.experts", "200", "w1", "weight")),
        ("layers.17.experts.200.bias", ("layers", "17", "experts", "200", "bias", "")),
        ("vision.encoder.layers.3.mlp.fc1.bias", ("vision.encoder.layers", "3", "mlp.fc1", None, "", "bias")),
        ("mtp.0.enorm.weight", ("mtp", "0", "enorm", None, "", "weight")),
        ("lm_head.weight", ("", None, "lm_head.weight", None, "", "")),
        ("12.weight", ("", None, "{}.weight", None, "", "")),
        ("unet/blocks.1.attn.2.to_q.0.weight", ("unet/blocks", "1", "attn", "2", "to_q.{}", "weight")),
    ],
)
def test_layer_and_component_are_read_from_the_name(name: str, place: tuple[object, ...]) -> None:
    """The first number is the layer, the second an item such as an expert; the last word is the leaf."""
    assert _place(name) == place


def test_a_tensor_beside_modules_is_a_component_of_its_own() -> None:
    """attn.sink stands beside attn.wq, so it is no leaf of a component attn."""
    assert _place("layers.1.attn.sink", "layers.1.attn.wq.weight")[2] == "attn.sink"


def test_what_is_dropped_stands_beside_what_is_left_of_its_module() -> None:
    """A dropped scale has no presented name; its sisters tell where it would have been."""
    made = grouped(
        [
            ("model.layers.3.self_attn.k.weight", "layers.3.attn.wk.weight"),
            ("model.layers.3.self_attn.k.scale", None),
        ]
    )
    assert {(place.stack, place.component) for place in places(made)} == {("layers", "attn.wk")}


def test_a_dropped_module_stays_in_its_stack() -> None:
    """Of a module that is dropped whole, the stack is known where all the others went to one."""
    made = grouped([("model.layers.3.a.weight", "layers.3.b.weight"), ("model.layers.3.gone.weight", None)])
    assert {(place.stack, place.component) for place in places(made)} == {("layers", "b"), ("layers", "gone")}
