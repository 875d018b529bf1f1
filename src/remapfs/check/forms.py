"""Quantised forms: which tensors stand for one weight.

The suffixes are those that ModelOpt, compressed-tensors and the FP8 exporters write.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Container

    from remapfs.check.reference import Wanted
    from remapfs.checkpoint.header import Tensor

WEIGHT = ".weight"
FLOATS = frozenset({"F64", "F32", "F16", "BF16"})
PACKED = frozenset({"U8", "I8", "I32", "F4", "F8_E4M3", "F8_E5M2"})
_FORM = re.compile(
    r"\.(?:weight_(?:scale(?:_2|_inv)?|global_scale|packed|shape|zero_point)|input_(?:global_)?scale|scale)$"
)
# Values in one stored element: NVFP4 has two in a byte, other four-bit forms eight in a 32-bit word.
_VALUES = (1, 2, 4, 8)


def weight_of(name: str, names: Container[str]) -> str | None:
    """Give the weight that a tensor belongs to as a part of its quantised form, if it is among `names`."""
    found = _FORM.search(name)
    weight = name[: found.start()] + WEIGHT if found else None
    return weight if weight in names else None


def holds(tensor: Tensor, wanted: Wanted) -> bool:
    """Whether a quantised tensor can hold the plain one's values: along its last axis it may be packed."""
    if tensor.dtype not in PACKED or wanted.dtype not in FLOATS or wanted.shape is None:
        return False
    here, there = tensor.shape, wanted.shape
    if not here or len(here) != len(there) or here[:-1] != there[:-1]:
        return False
    return any(here[-1] * values == there[-1] for values in _VALUES)
