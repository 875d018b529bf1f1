"""What holds for any model and any renaming that a person might have made."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from remapfs.suggest import suggest, toml
from remapfs.suggest.kinds import group, shown
from suggest.models import Both, only_names, renamed, sources, wanted

if TYPE_CHECKING:
    from remapfs.suggest import Suggestion
    from remapfs.suggest.kinds import Kind

_MODULES = (
    "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj", "self_attn.q_norm",
    "input_layernorm", "post_attention_layernorm", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj",
    "mlp.gate", "mlp.shared_experts.gate_proj", "attn_hc", "ffn_hc",
)  # fmt: skip
_EXPERT = ("mlp.experts.{e}.gate_proj", "mlp.experts.{e}.up_proj", "mlp.experts.{e}.down_proj")
_OUTSIDE = ("model.embed_tokens", "model.norm", "lm_head")
_SHAPES: tuple[tuple[int, ...], ...] = ((4, 8), (8, 4), (8,), (4, 4), (16, 8))
_FAMILIAR = {
    "self_attn": "attn", "mlp": "ffn", "q_proj": "wq", "k_proj": "wk", "v_proj": "wv", "o_proj": "wo",
    "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "gate_proj": "w1",
    "up_proj": "w3", "down_proj": "w2", "embed_tokens": "embed", "lm_head": "head", "layers": "blocks",
}  # fmt: skip
_words = st.from_regex(r"[a-z]{1,5}(_[a-z]{1,4}|[0-9])?", fullmatch=True)


@st.composite
def _models(draw: st.DrawFn) -> list[Both]:
    """Make a model under its own names, and under those of someone who renamed words and joined some."""
    layers = draw(st.integers(1, 3))
    modules = draw(st.lists(st.sampled_from(_MODULES), min_size=1, unique=True))
    experts = draw(st.integers(0, 2))
    quantised = draw(st.booleans())
    outside = [(name, draw(st.sampled_from(_SHAPES))) for name in draw(st.sets(st.sampled_from(_OUTSIDE)))]
    inside = [(name, draw(st.sampled_from(_SHAPES))) for name in (*modules, *_EXPERT)]
    tensors: list[tuple[str, str, tuple[int, ...]]] = [
        (f"{name}.weight", "BF16", shape) for name, shape in sorted(outside)
    ]
    for number in range(layers):
        for name, shape in inside:
            for expert in range(experts if "{e}" in name else 1):
                at = f"model.layers.{number}.{name.format(e=expert)}"
                if quantised and "{e}" in name:
                    tensors += [
                        (f"{at}.weight", "U8", shape),
                        (f"{at}.weight_scale", "F8_E4M3", (*shape[:-1], 1)),
                    ]
                else:
                    tensors.append((f"{at}.weight", "BF16", shape))
    rename = draw(_renamings({part for name, _, _ in tensors for part in name.split(".")}))
    return [Both(name, rename(name), dtype, shape) for name, dtype, shape in tensors]


def _renamings(words: set[str]) -> st.SearchStrategy[_Renaming]:
    free = sorted(
        word for word in words if not word.isdigit() and word not in ("weight", "weight_scale", "model")
    )
    new = st.fixed_dictionaries(
        {word: st.one_of(st.just(word), st.just(_FAMILIAR.get(word, word)), _words) for word in free}
    ).filter(lambda chosen: _distinct(chosen, words))
    return st.builds(
        _Renaming, new, st.sampled_from(["model.", "", "language_model.model.", "net."]), st.booleans()
    )


def _distinct(chosen: dict[str, str], words: set[str]) -> bool:
    """Whether no word takes the place of another that there is, so that names stay distinct."""
    given = list(chosen.values())
    return len(set(given)) == len(given) and all(
        new == old or new not in words for old, new in chosen.items()
    )


class _Renaming:
    def __init__(self, words: dict[str, str], start: str, joined: bool) -> None:  # noqa: FBT001  # drawn
        self.words, self.start, self.joined = words, start, joined

    def __repr__(self) -> str:
        return f"{self.words} {self.start!r} {self.joined}"

    def __call__(self, name: str) -> str:
        inside = name.startswith("model.")
        parts = [self.words.get(part, part) for part in name.removeprefix("model.").split(".")]
        new = ".".join(parts)
        if self.joined and name.startswith("model.layers.") and parts[-1] == "weight":
            *before, module, leaf = parts
            new = ".".join([*before, f"{module}_{leaf}"])
        return (self.start if inside else "") + new


def _says(suggestion: Suggestion, kind: Kind) -> bool:
    """Whether a kind is listed as chosen among several, undecided or left over."""
    # The scales of a weight are listed with it.
    text = f"{kind.module}.weight" if kind.leaf == "weight_scale" else kind.text
    chosen = {old for decision in suggestion.decided for old, _ in decision.pairs}
    listed = [*suggestion.undecided, *(_numberless(pattern) for pattern, _ in suggestion.unmapped)]
    return shown(text) in chosen or any(
        shown(text) in sentence or _numberless(shown(kind.module)) in sentence for sentence in listed
    )


def _numberless(pattern: str) -> str:
    return re.sub(r"\{[\d,: of them-]+\}|\d+|\bN\b", "N", pattern)


@given(_models(), st.booleans())
@settings(max_examples=150, deadline=None)
def test_it_is_right_or_says_so(both: list[Both], names_only: bool) -> None:  # noqa: FBT001  # drawn
    """Every name comes out as the person renamed it, or its kind is listed; the rules file always parses."""
    reference = only_names(wanted(both)) if names_only else wanted(both)
    suggestion = suggest(sources(both), reference)
    done = renamed(suggestion, [each.before for each in both])
    assert len(set(done)) == len(done)
    if suggestion.complete:
        assert set(done) == {each.after for each in both}
    outcome = dict(zip([each.before for each in both], done, strict=True))
    truth = {each.before: each.after for each in both}
    for kind in group(sources(both)):
        if any(outcome[name] != truth[name] for name in kind.names):
            assert _says(suggestion, kind), kind.text


@given(_models())
@settings(max_examples=30, deadline=None)
def test_the_same_input_gives_the_same_text(both: list[Both]) -> None:
    """Whatever the order in which sets are walked."""
    assert toml(suggest(sources(both), wanted(both))) == toml(suggest(sources(both), wanted(both)))
