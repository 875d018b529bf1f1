"""Plans and answers to report on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from remapfs.check import Answer, Judged, Outcome
from remapfs.report.families import families
from remapfs.report.items import Item
from remapfs.report.marks import RENAMED

if TYPE_CHECKING:
    from collections.abc import Iterable

    from remapfs import Plan
    from remapfs.report.families import Family

AGAINST = "a loader of the tests"
LAYERS, EXPERTS = 4, 30
HOLE = "layers.2.ffn.experts.17.w3.weight"
HOLE_ON_DISK = "model.layers.2.mlp.experts.17.up_proj.weight"
RULES = r"""
[[rename]]
prefix = "model."
to = ""
[[rename]]
substring = ".mlp."
to = ".ffn."
[[rename]]
substring = ".up_proj."
to = ".w3."
[[rename]]
substring = ".down_proj."
to = ".w2."
[[drop]]
match = 'k_scale$'
[[rename]]
substring = "no such name"
to = ""
optional = true
"""


def tensors() -> dict[str, str]:
    """Name the tensors of a small model with experts, under names that RULES changes, with their dtypes."""
    names = {"lm_head.weight": "BF16", "model.norm.weight": "F32"}
    for layer in range(LAYERS):
        before = f"model.layers.{layer}."
        names |= {f"{before}self_attn.q_proj.weight": "BF16", f"{before}self_attn.q_proj.k_scale": "F32"}
        for expert in range(EXPERTS):
            for part in ("up_proj", "down_proj"):
                names[f"{before}mlp.experts.{expert}.{part}.weight"] = "BF16"
    return names


def judged(plan: Plan, **outcomes: tuple[Outcome, str]) -> Answer:
    """Answer that every presented tensor loads but those named, by their presented names with __ for dots."""
    special = {name.replace("__", "."): found for name, found in outcomes.items()}
    loads = Outcome.LOADS, ""
    found = [
        Judged(tensor.name, name, *special.get(name, loads), tensor.length)
        for planned in plan.shards
        for tensor, name in planned.presented()
    ]
    return Answer(AGAINST, tuple(found))


def with_hole(plan: Plan) -> Answer:
    """Answer that all loads but one projection of one expert of one layer."""
    return judged(plan, **{HOLE.replace(".", "__"): (Outcome.IGNORED, "written nowhere")})


def item(source: str | None, name: str | None, mark: str = RENAMED, reason: str = "") -> Item:
    """Give a tensor of two bytes."""
    return Item(source, name, mark, reason, 2, "BF16", (1,))


def grouped(names: Iterable[tuple[str | None, str | None]]) -> list[Family]:
    """Group renamed tensors."""
    return families(item(source, name) for source, name in names)
