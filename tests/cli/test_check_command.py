"""`remapfs check` as a user runs it."""

from __future__ import annotations

import json
import os
import stat
import sys
from typing import TYPE_CHECKING

import pytest

from check.references import copy, demo, planned
from mounting import remapfs
from situations import shard

if TYPE_CHECKING:
    from pathlib import Path

WRONG = r"""
[[rename]]
match = '^layers\.2\.attn_norm\.'
to = 'layers.2.attn_layernorm.'
"""


@pytest.fixture
def native(tmp_path: Path) -> Path:
    """Give a reference: the small checkpoint copied under its native names."""
    return copy(planned(demo(tmp_path / "native-source")), tmp_path / "native")


def test_what_loads_is_one_line_and_exit_code_0(tmp_path: Path, native: Path) -> None:
    """Nothing else needs to be read at 2 a.m."""
    run = remapfs("check", demo(tmp_path / "hf"), "--preset", "deepseek-v4", "--against", native)
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout == f"loads: 296 tensors, 29.3 MB, none missing (against the checkpoint {native})\n"


def test_what_does_not_load_is_listed_by_pattern_with_exit_code_1(tmp_path: Path, native: Path) -> None:
    """The names, where they come from on disk, and the verdict at the end."""
    rules = tmp_path / "wrong.toml"
    rules.write_text(WRONG)
    run = remapfs(
        "check", demo(tmp_path / "hf"), "--preset", "deepseek-v4", "--rules", rules, "--against", native
    )
    assert (run.returncode, run.stderr) == (1, "")
    lines = run.stdout.splitlines()
    assert lines[:2] == ["missing: 1 tensor", "  layers.2.attn_norm.weight   1 tensor"]
    assert "unexpected: 1 tensor" in lines
    disk = "   (on disk: model.layers.2.input_layernorm.weight)"
    assert f"  layers.2.attn_layernorm.weight   1 tensor{disk}" in lines
    assert lines[-1] == (
        f"does NOT load: 295 of 296 tensors would, 1 missing (against the checkpoint {native})"
    )


def test_json_says_the_same(tmp_path: Path, native: Path) -> None:
    """With counts by outcome and the problems by pattern."""
    run = remapfs("check", demo(tmp_path / "hf"), "--against", native, "--json")
    assert run.returncode == 1
    told = json.loads(run.stdout)
    assert (told["loads"], told["outcomes"]) == (False, {"missing": 296, "unexpected": 296})
    assert sum(problem["tensors"] for problem in told["problems"]) == 592
    assert len(told["problems"]) < 120


def test_several_readers_are_asked_in_turn(tmp_path: Path, native: Path) -> None:
    """It has to load for all of them; JSON gives a list."""
    other = tmp_path / "names.txt"
    other.write_text("embed.weight\n")
    source = demo(tmp_path / "hf")
    arguments = ["--preset", "deepseek-v4", "--against", str(native), "--against", str(other)]
    run = remapfs("check", source, *arguments)
    assert run.returncode == 1
    assert [line.split(":")[0] for line in run.stdout.splitlines() if "(against" in line] == [
        "loads",
        "does NOT load",
    ]
    assert [told["loads"] for told in json.loads(remapfs("check", source, *arguments, "--json").stdout)] == [
        True,
        False,
    ]


def test_a_page_is_written(tmp_path: Path, native: Path) -> None:
    """With --html, whatever the answer is."""
    page = tmp_path / "report.html"
    run = remapfs("check", demo(tmp_path / "hf"), "--against", native, "--html", page)
    assert run.returncode == 1
    assert page.read_text().startswith("<!doctype html>")


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ([], "Missing option '--against'."),
        (["--against", "/nowhere"], "cannot read the reference /nowhere: No such file or directory"),
        (["--against", "vllm", "--python", "/nowhere"], "there is no Python at /nowhere"),
    ],
)
def test_bad_input_is_exit_code_2(arguments: list[str], error: str, tmp_path: Path) -> None:
    """An error and a hint, and nothing on stdout."""
    run = remapfs("check", demo(tmp_path / "hf"), *arguments)
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr.startswith(f"error: {error}")
    assert "\nhint:" in run.stderr


def test_an_environment_without_vllm_is_exit_code_2(tmp_path: Path) -> None:
    """The message names the interpreter, the hint the option."""
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -S -E "$@"\n')
    python.chmod(python.stat().st_mode | stat.S_IXUSR)
    run = remapfs("check", demo(tmp_path / "hf"), "--against", "vllm", "--python", python)
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr.startswith(f"error: {python} has no vLLM: ")
    assert "--python PATH" in run.stderr


def test_a_checkpoint_that_cannot_be_mounted_cannot_be_checked(tmp_path: Path) -> None:
    """The refusal is the same as that of a mount."""
    (tmp_path / "m.safetensors").write_bytes(shard({"tensors": [["a", "F32", [1]]]})[:-1])
    run = remapfs("check", tmp_path, "--against", os.devnull)
    assert run.returncode == 2
    assert "is truncated" in run.stderr
