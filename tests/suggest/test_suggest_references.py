"""References that are another member of the family, or lack something."""

from __future__ import annotations

from remapfs.suggest import Named, suggest
from suggest.models import (
    Both,
    deepseek_v3,
    deepseek_v4,
    layer_of,
    llama,
    only_names,
    renamed,
    sources,
    wanted,
)


def test_a_reference_with_fewer_layers_and_experts_is_enough() -> None:
    """The others follow the same rules, and the suggestion says so."""
    big, small = deepseek_v3(7, 2, 5), deepseek_v3(4, 2, 2)
    suggestion = suggest(sources(big), wanted(small))
    assert renamed(suggestion, [each.before for each in big]) == [each.after for each in big]
    assert suggestion.complete
    beyond = len(big) - len(small)
    assert f"{beyond} tensors with numbers that the reference does not have" in " ".join(suggestion.notes)


def test_a_reference_of_other_sizes_and_layer_kinds_is_enough() -> None:
    """Every shape differs, and the layers are not those that the source has: names decide, as is said."""
    both = deepseek_v4("A")
    # The compressed layers are others than in the source.
    order = {0: 0, 1: 2, 2: 1}
    other = [
        Named(
            each.after.replace(f"layers.{layer_of(each.after)}.", f"layers.{order[layer_of(each.after)]}.")
            if layer_of(each.after) >= 0
            else each.after,
            each.dtype,
            tuple(16 * size for size in each.shape),
        )
        for each in both
    ]
    suggestion = suggest(sources(both), other)
    assert renamed(suggestion, [each.before for each in both]) == [each.after for each in both]
    assert any("another shape" in decision.why for decision in suggestion.decided)


def test_a_draft_layer_that_the_reference_lacks_is_listed() -> None:
    """DeepSeek's own conversion leaves it out; what it shares with other layers follows their rules."""
    both = deepseek_v3(5)
    draft = [
        Named("model.layers.5.eh_proj.weight", "BF16", (512, 1024)),
        Named("model.layers.5.enorm.weight", "BF16", (512,)),
        Named("model.layers.5.shared_head.norm.weight", "BF16", (512,)),
    ]
    suggestion = suggest([*sources(deepseek_v3(6)), *draft], wanted(both))
    assert {pattern for pattern, _ in suggestion.unmapped} == {name for name, _, _ in draft}
    assert not suggestion.complete
    assert renamed(suggestion, ["model.layers.5.self_attn.o_proj.weight"]) == ["layers.5.attn.wo.weight"]


def test_what_the_source_lacks_is_listed_by_pattern() -> None:
    """Never a line a tensor."""
    both = llama(layers=4)
    suggestion = suggest([each for each in sources(both) if "up_proj" not in each.name], wanted(both))
    assert suggestion.missing == (("layers.{0-3}.feed_forward.w3.weight", 4),)
    assert not suggestion.complete


def test_a_tie_is_left_and_said() -> None:
    """Two kinds that nothing tells apart: any choice would be a guess."""
    both = [
        Both(f"layers.{number}.{old}.weight", f"layers.{number}.{new}.weight", "F32", (4,))
        for number in range(2)
        for old, new in (("aaa", "xxx"), ("bbb", "yyy"))
    ]
    suggestion = suggest(sources(both), wanted(both))
    assert not suggestion.rules
    assert not suggestion.complete
    (sentence,) = suggestion.undecided
    assert "aaa.weight, layers.N.bbb.weight could be any of layers.N.xxx.weight, layers.N.yyy" in sentence
    assert sum(tensors for _, tensors in suggestion.unmapped) == 4


def test_a_choice_by_name_is_listed() -> None:
    """Query and key of one shape, told apart by the letter."""
    both = llama(key_values=64)
    suggestion = suggest(sources(both), wanted(both))
    listed = {pair for decision in suggestion.decided for pair in decision.pairs}
    for letter in "qkvo":
        before, after = (
            f"model.layers.N.self_attn.{letter}_proj.weight",
            f"layers.N.attention.w{letter}.weight",
        )
        assert (before, after) in listed


def test_what_only_one_shape_fits_is_not_listed() -> None:
    """The down projection is the only one of its shape."""
    suggestion = suggest(sources(llama()), wanted(llama()))
    assert not any("down_proj" in old for decision in suggestion.decided for old, _ in decision.pairs)


def test_a_different_quantisation_is_said() -> None:
    """NVFP4 here, FP8 there: the parts keep their own names."""
    source = [
        Named("a.mlp.weight", "U8", (8, 8)),
        Named("a.mlp.weight_scale", "F8_E4M3", (8, 1)),
        Named("a.mlp.weight_scale_2", "F32", ()),
        Named("a.mlp.input_scale", "F32", ()),
    ]
    reference = [Named("a.ffn.weight", "F8_E4M3", (8, 16)), Named("a.ffn.scale", "F32", (1, 1))]
    suggestion = suggest(source, reference)
    assert renamed(suggestion, [name for name, _, _ in source]) == [
        "a.ffn.weight",
        "a.ffn.weight_scale",
        "a.ffn.weight_scale_2",
        "a.ffn.input_scale",
    ]
    assert any("another form" in decision.why for decision in suggestion.decided)
    assert suggestion.missing == (("a.ffn.scale", 1),)


def test_nothing_in_common_is_no_suggestion() -> None:
    """Names alone, of two models that have nothing to do with each other."""
    suggestion = suggest(
        [Named("visual.patch.bias", None, None)], only_names([Named("decoder.rope.freqs", "F32", ())])
    )
    assert not suggestion.rules
    assert [pattern for pattern, _ in suggestion.unmapped] == ["visual.patch.bias"]
    assert [pattern for pattern, _ in suggestion.missing] == ["decoder.rope.freqs"]


def test_the_same_names_need_no_rules() -> None:
    """A source that is already right."""
    same = sources(llama())
    suggestion = suggest(same, same)
    assert not suggestion.rules
    assert suggestion.complete


def test_an_empty_side_is_no_error() -> None:
    """Everything is left over."""
    assert suggest([], []).complete
    assert not suggest(sources(llama()), []).complete
    assert not suggest([], wanted(llama())).complete


def test_names_that_change_places_do() -> None:
    """One is put aside for the time being: no two tensors ever have one name."""
    both = [
        Both("layers.0.one.weight", "layers.0.two.weight", "F32", (4,)),
        Both("layers.0.two.weight", "layers.0.one.weight", "F32", (8,)),
        Both("layers.0.three.weight", "layers.0.three.weight", "F32", (2,)),
    ]
    suggestion = suggest(sources(both), wanted(both))
    assert renamed(suggestion, [each.before for each in both]) == [each.after for each in both]
    assert suggestion.complete


def test_a_name_that_another_tensor_keeps_is_not_given_twice() -> None:
    """What has no counterpart holds the wanted name: nothing can become it, and that is said."""
    source = [Named("a.old.weight", "F32", (4,)), Named("a.new.weight", "I64", (9, 9))]
    suggestion = suggest(source, [Named("a.new.weight", "F32", (4,))])
    assert len(set(renamed(suggestion, ["a.old.weight", "a.new.weight"]))) == 2
    assert not suggestion.complete
    assert any("a.old.weight" in sentence for sentence in suggestion.undecided)
