"""`remapfs plan` and `remapfs presets`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from typing import TYPE_CHECKING

import pytest

from mounting import remapfs
from remapfs import load_rules, make_plan, presets, read_checkpoint
from remapfs.plan import dump
from remapfs.rules import preset_text
from situations import shard

if TYPE_CHECKING:
    from pathlib import Path

RULES = """
[[rename]]
match = '^model\\.layers\\.(\\d+)\\.mlp\\.'
to = 'layers.\\1.ffn.'
[[drop]]
suffix = '.k_scale'
[[alias]]
name = 'embed'
as = 'head'
"""
TEXT = """\
renamed: 4 tensors
  model.layers.{0-1}.mlp.experts.{0-1}.w → layers.{}.ffn.experts.{}.w   4 tensors        8 B
dropped: 1 tensor
  a.k_scale   1 tensor        8 B
aliases: 1 tensor
  embed → head   1 tensor     2.0 kB
untouched: 1 tensor
  embed   1 tensor     2.0 kB
rules that matched: 3 of 3
  4   ^model\\.layers\\.(\\d+)\\.mlp\\. → 'layers.\\1.ffn.'   (rename rule 1 in rules.toml (line 2))
  1   drop suffix '.k_scale'   (drop rule 1 in rules.toml (line 5))
  1   alias 'embed' as 'head'   (alias rule 1 in rules.toml (line 7))
config.json:
  @@ -2,5 +2,5 @@
     "quantization_config": {
       "ignore": [
  -      "model.layers.0.mlp*"
  +      "layers.0.ffn*"
       ]
     }
findings:
healed  model.safetensors: 5 trailing bytes ignored
6 tensors in 1 shard, 4.0 kB passed through, {own} written by remapfs, 1 healed
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Write a checkpoint that has something of everything, and rules beside it."""
    folder = tmp_path / "source"
    folder.mkdir()
    names = [f"model.layers.{layer}.mlp.experts.{expert}.w" for layer in (0, 1) for expert in (0, 1)]
    tensors = [*([name, "U8", [2]] for name in names), ["a.k_scale", "F32", [2]], ["embed", "BF16", [1000]]]
    (folder / "model.safetensors").write_bytes(shard({"tensors": tensors, "trailing": 5}))
    config = {"quantization_config": {"ignore": ["model.layers.0.mlp*"]}}
    (folder / "config.json").write_text(json.dumps(config, indent=2))
    (tmp_path / "rules.toml").write_text(RULES)
    return folder


def plan(source: Path, *options: str) -> str:
    """Run the command on the checkpoint under its rules."""
    run = remapfs("plan", source, "--rules", source.parent / "rules.toml", *options)
    assert (run.returncode, run.stderr) == (0, "")
    return run.stdout


def test_the_plan_for_a_person(source: Path) -> None:
    """Names by pattern, before and after, with the numbers that vary; rules, diffs, findings and totals."""
    *_, total = plan(source).splitlines()
    own = total.split(", ")[2].removesuffix(" written by remapfs")
    assert plan(source) == TEXT.replace("{own}", own)


def test_json_is_json(source: Path) -> None:
    """With the same numbers."""
    document = json.loads(plan(source, "--json"))
    assert document["source"] == os.path.realpath(source)
    assert (document["tensors"], document["tensor_bytes"]) == (6, 4008)
    assert document["names"]["renamed"] == [
        {
            "before": "model.layers.{0-1}.mlp.experts.{0-1}.w",
            "after": "layers.{}.ffn.experts.{}.w",
            "tensors": 4,
            "bytes": 8,
        }
    ]
    assert {kind: len(groups) for kind, groups in document["names"].items()} == {
        "renamed": 1,
        "dropped": 1,
        "aliased": 1,
        "untouched": 1,
    }
    assert [rule["hits"] for rule in document["rules"]] == [4, 1, 1]
    assert [finding["kind"] for finding in document["findings"]] == ["healed"]
    assert [file["path"] for file in document["files"]] == ["config.json", "model.safetensors"]
    assert '+      "layers.0.ffn*"' in document["rewrites"][0]["diff"]


def test_dump_is_the_library_s(source: Path) -> None:
    """Line by line."""
    rules = load_rules(str(source.parent / "rules.toml"))
    made = make_plan(read_checkpoint(source), rules)
    assert plan(source, "--dump").splitlines() == list(dump(made))


def test_a_dump_is_the_same_in_every_run(source: Path) -> None:
    """Whatever the seed of Python's hashes, also where numbers differ only in their zeros."""
    names = [f"text.{number}.w" for number in ("7", "07", "007", "8", "1", "01")]
    (source / "model.safetensors").write_bytes(shard({"tensors": [[name, "U8", [2]] for name in names]}))
    (source.parent / "rules.toml").write_text("[[rename]]\nprefix = 'text'\nto = 'text.text'\n")
    rules = str(source.parent / "rules.toml")
    runs = [
        remapfs("plan", source, "--rules", rules, "--dump", env={**os.environ, "PYTHONHASHSEED": str(seed)})
        for seed in range(4)
    ]
    assert "a rule doubled a part of text.text.{01,1,007,07,7,8}.w" in runs[0].stdout
    assert len({run.stdout for run in runs}) == 1


def test_a_long_diff_is_shortened_unless_asked_for(source: Path) -> None:
    """It says how much is left out."""
    config = {"x": {str(number): number for number in range(100)}}
    (source / "config.json").write_text(json.dumps(config, indent=2))
    (source.parent / "rules.toml").write_text(RULES + "[[json]]\nfile = 'config.json'\njq = '.x = {}'\n")
    short, full = plan(source), plan(source, "--full-diff")
    assert "more lines: --full-diff" in short
    assert "more lines" not in full
    assert len(full.splitlines()) > len(short.splitlines())


def test_a_reader_that_goes_away_is_no_error(source: Path) -> None:
    """As with `| head`: no traceback, and exit code 1."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        run = subprocess.run(
            [sys.executable, "-m", "remapfs", "plan", str(source), "--dump"],
            stdout=writing,
            stderr=subprocess.PIPE,
            check=False,
        )
    finally:
        os.close(writing)
    assert (run.returncode, run.stderr) == (1, b"")


def test_output_that_has_no_room_is_an_error(source: Path) -> None:
    """Said in a line, with exit code 1."""
    with open("/dev/full", "wb") as full:
        run = subprocess.run(
            [sys.executable, "-m", "remapfs", "plan", str(source), "--dump"],
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
            text=True,
        )
    assert run.returncode == 1
    assert run.stderr.startswith("error: No space left on device\nhint:  ")


def test_presets_are_listed() -> None:
    """One a line, with what it is about and the parameters that it takes; or as JSON."""
    lines = remapfs("presets").stdout.splitlines()
    assert [line.split()[0] for line in lines] == list(presets())
    assert all(about in line for line, about in zip(lines, presets().values(), strict=True))
    assert [line.split()[0] for line in lines if line.endswith("--set prefix=…")] == [
        "add-prefix",
        "strip-prefix",
    ]
    assert json.loads(remapfs("presets", "--json").stdout) == presets()


def test_a_preset_is_printed_as_it_is() -> None:
    """So that it can be changed and given as --rules."""
    run = remapfs("presets", "deepseek-v4")
    assert run.stdout == preset_text("deepseek-v4")
    assert tomllib.loads(run.stdout)["about"]


def test_a_preset_and_rules_together(source: Path) -> None:
    """The preset's come first."""
    (source.parent / "rules.toml").write_text("[[rename]]\nprefix = 'layers.'\nto = 'blocks.'\n")
    out = plan(source, "--preset", "deepseek-v4")
    assert "model.layers.{0-1}.mlp.experts.{0-1}.w → blocks.{}.mlp.experts.{}.w" in out
