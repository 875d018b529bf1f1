"""The layouts that are met: each becomes the other without a hand on the rules."""

from __future__ import annotations

import pytest

from remapfs import load_preset
from remapfs.rules.apply import apply_steps
from remapfs.rules.model import Drop
from remapfs.suggest import Named, suggest
from suggest.models import (
    Both,
    back,
    deepseek_v3,
    deepseek_v4,
    llama,
    only_names,
    renamed,
    sources,
    unquantised,
    wanted,
)

KNOWN = {
    "DeepSeek V4, dialect A": deepseek_v4("A"),
    "DeepSeek V4, dialect B": deepseek_v4("B"),
    "DeepSeek V4, dialect D": deepseek_v4("D"),
    "DeepSeek V3": deepseek_v3(),
    "Llama": llama(key_values=16),
    "Llama whose attention is square": llama(key_values=64),
}
EITHER_WAY = KNOWN | {f"{name}, backwards": back(both) for name, both in KNOWN.items()}


def exact(both: list[Both], reference: list[Named]) -> None:
    """Assert that the suggestion is whole and gives every tensor its name."""
    suggestion = suggest(sources(both), reference)
    assert renamed(suggestion, [each.before for each in both]) == [each.after for each in both]
    assert suggestion.complete
    assert suggestion.mapped == suggestion.tensors == len(both)


@pytest.mark.parametrize("both", EITHER_WAY.values(), ids=EITHER_WAY)
def test_a_reference_of_the_same_kind_is_met_exactly(both: list[Both]) -> None:
    """With dtypes and shapes on both sides."""
    exact(both, wanted(both))


@pytest.mark.parametrize("both", EITHER_WAY.values(), ids=EITHER_WAY)
def test_names_alone_are_enough(both: list[Both]) -> None:
    """As an index or a list of names gives them."""
    exact(both, only_names(wanted(both)))


@pytest.mark.parametrize("dialect", ["A", "B", "D"])
def test_the_reference_may_be_unquantised(dialect: str) -> None:
    """The scales of a weight go where its module goes, under their own last segments."""
    both = deepseek_v4(dialect)
    exact(both, unquantised(wanted(both)))


@pytest.mark.parametrize("dialect", ["A", "B", "D"])
def test_the_source_may_be_unquantised(dialect: str) -> None:
    """The scales that the reference has are not missed."""
    both = deepseek_v4(dialect)
    new = {each.before: each.after for each in both}
    plain = [
        Both(name, new[name], dtype or "", shape or ()) for name, dtype, shape in unquantised(sources(both))
    ]
    exact(plain, wanted(both))


@pytest.mark.parametrize("dialect", ["A", "B", "D"])
def test_there_are_no_more_rules_than_a_person_wrote(dialect: str) -> None:
    """Than those of the preset that this dialect needs."""
    both = deepseek_v4(dialect)
    hits = apply_steps([each.before for each in both], load_preset("deepseek-v4").steps).hits
    needed = sum(1 for hit in hits if hit)
    assert 0 < len(suggest(sources(both), wanted(both)).rules) <= needed


def test_a_moved_prefix_is_one_rule_that_says_where() -> None:
    """Case N01, an official checkpoint: what lies beside the layers stays."""
    parts = ("weight", "weight_scale", "weight_scale_2", "input_scale")
    names = [
        *(f"language_model.layers.{n}.mlp.experts.0.down_proj.{part}" for n in (3, 4) for part in parts),
        "language_model.embed_tokens.weight",
        "lm_head.weight",
    ]
    moved = [name.replace("language_model.layers.", "language_model.model.layers.") for name in names]
    suggestion = suggest(
        [Named(name, "F32", ()) for name in names], [Named(name, "F32", ()) for name in moved]
    )
    assert [rule.step.pattern.text for rule in suggestion.rules] == ["language_model.layers."]  # type: ignore[union-attr]
    assert renamed(suggestion, names) == moved
    assert not suggestion.decided


def test_scales_of_the_cache_are_dropped_where_that_is_certain() -> None:
    """The reference is quantised, has the same attention, and has none of them: one rule, which says why."""
    both = deepseek_v4("A")
    scales = [
        Named(f"model.layers.{number}.self_attn.{which}_proj.{which}_scale", "F32", ())
        for number in range(3)
        for which in "kv"
    ]
    suggestion = suggest([*sources(both), *scales], wanted(both))
    first, *others = suggestion.rules
    assert isinstance(first.step, Drop)
    assert first.tensors == len(scales)
    assert "KV cache" in first.comment[0]
    assert not any(isinstance(rule.step, Drop) for rule in others)
    assert suggestion.complete
    assert renamed(suggestion, [name for name, _, _ in scales]) == [None] * len(scales)


def test_scales_of_the_cache_are_listed_where_it_is_not() -> None:
    """An unquantised reference has none in any case."""
    both = deepseek_v4("A")
    scale = Named("model.layers.0.self_attn.k_proj.k_scale", "F32", ())
    suggestion = suggest([*sources(both), scale], unquantised(wanted(both)))
    assert not any(isinstance(rule.step, Drop) for rule in suggestion.rules)
    assert suggestion.unmapped == ((scale.name, 1),)
    assert not suggestion.complete
