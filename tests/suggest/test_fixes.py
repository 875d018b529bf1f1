"""Rules for what a comparison left over."""

from __future__ import annotations

from remapfs.rules import parse_rules
from remapfs.rules.apply import apply_steps
from remapfs.suggest import Named, fixes

_PARTS = (("weight", "U8", (4, 4)), ("weight_scale", "F8_E4M3", (4, 1)))


def experts(module: str) -> list[Named]:
    """Give four quantised experts."""
    return [
        Named(f"layers.{layer}.{module.format(e=expert)}.{part}", dtype, shape)
        for layer in range(2)
        for expert in range(2)
        for part, dtype, shape in _PARTS
    ]


def test_one_rule_moves_a_weight_with_its_scales() -> None:
    """And it matches their whole names, so that it touches nothing else."""
    unexpected, missing = experts("mlp.experts.{e}.gate_proj"), experts("ffn.experts.{e}.w1")
    (fix,) = fixes(unexpected, missing)
    assert fix.pattern == "layers.{0-1}.mlp.experts.{0-1}.gate_proj.{weight, weight_scale}"
    assert fix.nearest == "layers.{0-1}.ffn.experts.{0-1}.w1.{weight, weight_scale}"
    assert fix.rule is not None
    other = "layers.0.mlp.experts.0.gate_proj.bias"
    done = apply_steps([*fix.names, other], parse_rules(fix.rule, "fix.toml").steps).names
    assert sorted(str(name) for name in done) == sorted([*(name for name, _, _ in missing), other])


def test_a_last_segment_that_changes_is_a_rule_of_its_own() -> None:
    """The whole name, to the end."""
    (fix,) = fixes(
        [Named("layers.0.gate.e_score_correction_bias", "F32", (8,))],
        [Named("layers.0.gate.bias", "F32", (8,))],
    )
    assert fix.rule == (
        "[[rename]]\n"
        r"match = '^layers\.(\d+)\.gate\.e_score_correction_bias$'" + "\n"
        r"to    = 'layers.\1.gate.bias'"
    )


def test_without_a_partner_the_nearest_name_is_all() -> None:
    """Another dtype and shape: no rule would be right."""
    (fix,) = fixes(
        [Named("layers.0.attn.k_scale", "F32", ())], [Named("layers.0.attn.k_norm.weight", "BF16", (8,))]
    )
    assert (fix.pattern, fix.nearest, fix.rule) == (
        "layers.0.attn.k_scale",
        "layers.0.attn.k_norm.weight",
        None,
    )


def test_where_nothing_is_wanted_nothing_is_near() -> None:
    """And nothing unexpected needs no fix."""
    (fix,) = fixes([Named("a.weight", None, None)], [])
    assert (fix.nearest, fix.rule) == (None, None)
    assert fixes([], [Named("a.weight", None, None)]) == []
