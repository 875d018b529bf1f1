"""How alike two names are, by the words in them.

The words are those that Hugging Face transformers, Meta's and Mistral's consolidated checkpoints, GPT-2 and
DeepSeek's own checkpoints use for the same thing.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from math import log
from typing import TYPE_CHECKING

from remapfs.suggest.kinds import slot_number

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

# Whole segments whose words do not say what they mean.
_SEGMENTS = {
    "model": "", "transformer": "", "base_model": "",
    "lm_head": "head", "output": "head", "embed_out": "head", "logits": "head", "unembed": "head",
    "tok_embeddings": "embed", "embed_tokens": "embed", "wte": "embed", "word_embeddings": "embed",
    "tokens": "embed", "token_embedding": "embed",
    "input_layernorm": "attn norm", "attn_norm": "attn norm", "attention_norm": "attn norm",
    "ln_1": "attn norm",
    "post_attention_layernorm": "ffn norm", "ffn_norm": "ffn norm", "ln_2": "ffn norm",
    "final_layernorm": "norm", "ln_f": "norm", "norm_f": "norm",
    "self_attn": "attn", "self_attention": "attn", "feed_forward": "ffn", "block_sparse_moe": "ffn",
    "w1": "gate", "w2": "down", "w3": "up",
    "e_score_correction_bias": "bias", "position_bias": "position", "ape": "position",
    "attn_sink": "sink", "sinks": "sink",
    "h": "layers", "blocks": "layers", "block": "layers",
    "weight_scale_inv": "scale",
}  # fmt: skip
_WORDS = {
    "attention": "attn", "mlp": "ffn", "layernorm": "norm", "ln": "norm", "embedding": "embed",
    "embeddings": "embed", "layer": "layers", "expert": "experts", "shared": "shared",
    "query": "q", "key": "k", "value": "v", "dense": "o", "proj": "", "self": "",
}  # fmt: skip
_PROJECTION = re.compile(r"w(q|k|v|o|kv|qkv|gate|up|down)$")
_BOUNDARY = re.compile(r"_|(?<=[a-z])(?=[A-Z])|(?<=[a-zA-Z])(?=\d)")
_WHOLE = 1000
_REMEMBERED = 1 << 15


@lru_cache(maxsize=_REMEMBERED)
def words(text: str) -> tuple[str, ...]:
    """List the words of a kind's text, in a common spelling."""
    found: list[str] = []
    for segment in text.split("."):
        if slot_number(segment) is not None:
            continue
        known = _SEGMENTS.get(segment)
        if known is not None:
            found += known.split()
            continue
        for word in _BOUNDARY.split(segment):
            lower = word.lower()
            projection = _PROJECTION.match(lower)
            meant = projection[1] if projection else _WORDS.get(lower, lower)
            if meant:
                found.append(meant)
    return tuple(found)


@dataclass(frozen=True)
class Lexicon:
    """Weights of words, the rarer the more, and what segments of the source were learnt to be."""

    weights: Mapping[str, float]
    learnt: Mapping[str, str]

    def read(self, text: str) -> str:
        """Replace what was learnt in a text of the source."""
        return ".".join(self.learnt.get(segment, segment) for segment in text.split("."))

    def likeness(self, source: str, wanted: str) -> int:
        """Say how alike two texts are, from 0 to 1000: the same words, and then words that look alike."""
        # What was learnt of one place need not hold in another.
        read = self.read(source)
        return max(self._likeness(text, wanted) for text in dict.fromkeys((source, read)))

    def _likeness(self, source: str, wanted: str) -> int:
        ours, theirs = _bag(source), _bag(wanted)
        shared = ours & theirs
        common = self._sum(shared.elements())
        left, right = ours - shared, theirs - shared
        whole = common + self._sum(left.elements()) + self._sum(right.elements())
        for word in sorted(left.elements()):
            other = max(right.elements(), key=lambda other: (_look(word, other), other), default=None)
            if other is not None and _look(word, other) > _ALIKE:
                right -= Counter({other: 1})
                both = self._weight(word) + self._weight(other)
                common += _look(word, other) * both / 2
                whole -= _look(word, other) * both / 2
        alike = _WHOLE * common / whole if whole else _WHOLE
        # Where the words are the same, so much the better if they are spelt and divided the same.
        return round(alike * (1 - _SPELLING) + _WHOLE * _SPELLING * _spelt_alike(source, wanted))

    def _sum(self, found: Iterable[str]) -> float:
        return sum(self._weight(word) for word in found)

    def _weight(self, word: str) -> float:
        return self.weights.get(word, 1.0)


_ALIKE = 0.4
_SPELLING = 0.1


def lexicon(source: Iterable[str], wanted: Iterable[str], learnt: Mapping[str, str]) -> Lexicon:
    """Weigh the words of both sides."""
    lexicon = Lexicon({}, learnt)
    texts = [*map(lexicon.read, source), *wanted]
    seen = Counter(word for text in texts for word in set(words(text)))
    return Lexicon({word: log(1 + len(texts) / count) for word, count in seen.items()}, learnt)


def changed_segments(source: str, wanted: str) -> list[tuple[str, str]]:
    """Pair the segments that differ, from the end on, as far as slots stand in the same places."""
    pairs = []
    for ours, theirs in zip(reversed(source.split(".")), reversed(wanted.split(".")), strict=False):
        if slot_number(ours) != slot_number(theirs):
            break
        if ours != theirs:
            pairs.append((ours, theirs))
    return pairs


@lru_cache(maxsize=_REMEMBERED)
def _bag(text: str) -> Counter[str]:
    return Counter(words(text))


@lru_cache(maxsize=_REMEMBERED)
def _segments(text: str) -> Counter[str]:
    return Counter(text.split("."))


def _spelt_alike(one: str, other: str) -> float:
    ours, theirs = _segments(one), _segments(other)
    return 2 * sum((ours & theirs).values()) / (sum(ours.values()) + sum(theirs.values()))


@lru_cache(maxsize=_REMEMBERED)
def _look(one: str, other: str) -> float:
    pairs, others = _pairs(one), _pairs(other)
    return 2 * sum((pairs & others).values()) / (sum(pairs.values()) + sum(others.values()))


def _pairs(word: str) -> Counter[str]:
    padded = f"^{word}$"
    return Counter(padded[i : i + 2] for i in range(len(padded) - 1))
