"""The page of a model of DeepSeek-V4's size: 61 layers, 384 experts, 281,088 tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from remapfs.check import Answer, Judged, Outcome
from remapfs.checkpoint.header import Header, Tensor
from remapfs.checkpoint.model import File, Shard
from remapfs.checkpoint.source import Attributes, Source
from remapfs.plan import Plan
from remapfs.plan.model import PlannedShard
from remapfs.report import report
from report.browser import Browser, needs_chromium

if TYPE_CHECKING:
    from pathlib import Path

LAYERS, EXPERTS = 61, 384
PARTS = {"gate_proj": "w1", "down_proj": "w2", "up_proj": "w3"}
LEAVES = {"weight": 4096, "weight_scale": 512, "weight_scale_2": 4, "input_scale": 4}
HOLE = "layers.17.ffn.experts.200.w3.weight"
MEGABYTE = 1_000_000


def _plan() -> Plan:
    tensors, names, end = [], [], 0
    for layer in range(LAYERS):
        for expert in range(EXPERTS):
            for part, new in PARTS.items():
                for leaf, length in LEAVES.items():
                    name = f"model.layers.{layer}.mlp.experts.{expert}.{part}.{leaf}"
                    tensors.append(Tensor(name, "U8", (length,), end, end + length))
                    names.append(f"layers.{layer}.ffn.experts.{expert}.{new}.{leaf}")
                    end += length
    header = Header(0, None, tuple(tensors), (), ())
    file = File("model.safetensors", Source("/m/model.safetensors", 0, 0, 0, 0), Attributes(0o644, 0, 0, 0))
    shard = Shard(file, header, "", indexed=False, exact=True)
    return Plan("/m", (), (), (), (PlannedShard(shard, tuple(names), (), rewritten=True),))


@needs_chromium
def test_one_hole_in_281088_tensors_is_seen_in_a_page_under_a_megabyte(tmp_path: Path) -> None:
    """The tile of its layer differs, the tile of its expert too, and the search finds a good name."""
    plan = _plan()
    answer = Answer(
        "a loader",
        tuple(
            Judged(tensor.name, name, Outcome.IGNORED if name == HOLE else Outcome.LOADS, "", tensor.length)
            for planned in plan.shards
            for tensor, name in planned.presented()
        ),
    )
    file = tmp_path / "report.html"
    file.write_text(report(plan, answer))
    assert file.stat().st_size < MEGABYTE
    profile = tmp_path / "profile"
    profile.mkdir()
    with Browser(profile) as browser, browser.page() as page:
        page.open(file)
        labels = page.run(
            "[...document.querySelectorAll('.layers .tile')].map(t => t.getAttribute('aria-label'))"
        )
        assert len(labels) == LAYERS
        (hole,) = [label for label in labels if "ignored" in label]
        assert hole == "layer 17, ffn.experts: 1 of 4,608 silently ignored, 4,607 load"
        page.run("document.querySelector('.layers [data-mark=ignored]').click()")
        assert page.run("document.querySelectorAll('.items .tile').length") == EXPERTS * len(PARTS)
        assert page.run("document.querySelectorAll('.items [data-mark=ignored]').length") == 1
        page.press("/")
        page.type("model.layers.60.mlp.experts.383.up_proj.input_scale")
        page.press("Enter")
        assert page.run("document.getElementById('matches').textContent") == "1 tensor found"
        assert page.complaints == []


@pytest.mark.parametrize("every", [2, 7])
def test_even_scattered_failures_stay_under_a_megabyte(every: int) -> None:
    """Nothing that alternates can be written short; the page keeps to its size all the same."""
    plan = _plan()
    judged = [
        Judged(tensor.name, name, Outcome.REFUSED if not number % every else Outcome.LOADS, "", 0)
        for planned in plan.shards
        for number, (tensor, name) in enumerate(planned.presented())
    ]
    assert len(report(plan, Answer("a loader", tuple(judged))).encode()) < MEGABYTE
