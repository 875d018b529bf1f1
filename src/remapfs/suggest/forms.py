"""Which tensors can be the same one, quantised or not, judged by dtype and shape.

A quantised weight is several tensors of one module: the weight itself and its parts. The names of parts are
those that ModelOpt, compressed-tensors, FP8, GPTQ and AWQ exporters write.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from remapfs.suggest.kinds import Kind, Shape

WEIGHTS = frozenset({"weight", "weight_packed", "qweight"})
PARTS = frozenset(
    {
        "weight_scale", "weight_scale_2", "weight_scale_inv", "weight_global_scale", "weight_zero_point",
        "weight_shape", "weight_g_idx", "input_scale", "input_global_scale", "input_zero_point", "scale",
        "scales", "qzeros", "g_idx", "act_scale", "pre_quant_scale",
    }
)  # fmt: skip
# Scales of a quantised KV cache, which belong to no weight, and what rotary embeddings compute anew.
CACHE_SCALES = frozenset({"k_scale", "v_scale", "kv_scale", "q_scale", "prob_scale"})

_FLOATS = frozenset({"F64", "F32", "F16", "BF16"})
_PACKED = frozenset({"U8", "I8", "I32", "F4", "F8_E4M3", "F8_E5M2"})
# Values in one stored element: two four-bit values in a byte, eight in a 32-bit word.
_VALUES = (2, 4, 8)


class Fit(IntEnum):
    """How well two things agree."""

    NEVER = 0
    DIFFERENT = 1
    UNKNOWN = 2
    SOME = 3
    SAME = 4


def parts_by_module(kinds: Iterable[Kind]) -> dict[str, dict[str, Kind]]:
    """Map the module of each quantised weight to its parts, each under its last segment."""
    kinds = list(kinds)
    weights = {kind.module for kind in kinds if kind.leaf in WEIGHTS and "." in kind.text}
    parts: dict[str, dict[str, Kind]] = {}
    for kind in kinds:
        if kind.leaf in PARTS and kind.module in weights:
            parts.setdefault(kind.module, {})[kind.leaf] = kind
    return parts


def dtype_fit(source: Kind, wanted: Kind) -> Fit:
    """Compare dtypes: any float can stand for another, and a packed one for a float, as a weight."""
    if not source.dtypes or not wanted.dtypes:
        return Fit.UNKNOWN
    if source.dtypes == wanted.dtypes:
        return Fit.SAME
    if source.dtypes <= _FLOATS and wanted.dtypes <= _FLOATS:
        return Fit.SOME
    weights = source.leaf in WEIGHTS and wanted.leaf in WEIGHTS
    if weights and (source.dtypes | wanted.dtypes) <= _FLOATS | _PACKED:
        return Fit.SOME
    return Fit.SOME if source.dtypes & wanted.dtypes else Fit.NEVER


def shape_fit(source: Kind, wanted: Kind) -> Fit:
    """Compare shapes, up to how a quantised weight is packed."""
    ours, theirs = source.shapes, wanted.shapes
    if not ours or not theirs:
        return Fit.UNKNOWN
    if ours == theirs:
        return Fit.SAME
    if {len(shape) for shape in ours}.isdisjoint(len(shape) for shape in theirs):
        # A scalar is written as [] or as [1].
        small = all(shape in ((), (1,)) for shape in ours | theirs)
        return Fit.SOME if small else Fit.NEVER
    packs = source.dtypes <= _PACKED or wanted.dtypes <= _PACKED
    here = [shape for shape in ours if any(_alike(shape, other, packs=packs) for other in theirs)]
    there = [shape for shape in theirs if any(_alike(other, shape, packs=packs) for other in ours)]
    if len(here) == len(ours) and len(there) == len(theirs):
        return Fit.SAME
    return Fit.SOME if here else Fit.DIFFERENT


def _alike(one: Shape, other: Shape, *, packs: bool) -> bool:
    if one == other:
        return True
    if not packs or not one or len(one) != len(other) or one[:-1] != other[:-1]:
        return False
    return any(one[-1] * values == other[-1] or other[-1] * values == one[-1] for values in _VALUES)
