"""`remapfs suggest`, as it is called."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from remapfs import load_preset, load_rules, make_plan, read_checkpoint
from remapfs.cli.suggest import suggest
from remapfs.demo import write_checkpoint
from remapfs.errors import RemapError
from remapfs.rules.apply import apply_steps

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a real export of a tiny DeepSeek V4, in dialect A."""
    folder: Path = tmp_path_factory.mktemp("demo")
    write_checkpoint(folder)
    return folder


def native(source: Path) -> list[str]:
    """List the names that the preset gives."""
    names = [tensor.name for shard in read_checkpoint(source).shards for tensor in shard.header.tensors]
    return [str(name) for name in apply_steps(names, load_preset("deepseek-v4").steps).names]


@pytest.fixture(scope="module")
def names(demo: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a text file of native names, one a line."""
    file: Path = tmp_path_factory.mktemp("names") / "names.txt"
    file.write_text("# what the loader wants\n" + "\n".join(native(demo)) + "\n")
    return file


def run(*arguments: object) -> Result:
    """Call the command."""
    return CliRunner().invoke(suggest, [str(argument) for argument in arguments])


def test_the_rules_that_it_writes_make_the_plan(demo: Path, names: Path, tmp_path: Path) -> None:
    """A file for --rules, with the summary on stderr and exit code 0."""
    target = tmp_path / "rules.toml"
    result = run(demo, names, "-o", target)
    assert result.exit_code == 0
    assert result.stdout == ""
    assert "rename rules: 296 of 296 tensors get the wanted name" in result.stderr
    assert "the reference is only names" in result.stderr
    rules = load_rules(str(target))
    plan = make_plan(read_checkpoint(demo, documents=rules.documents), rules)
    presented = [new for shard in plan.shards for _, new in shard.presented()]
    assert sorted(presented) == sorted(native(demo))


def test_without_a_file_the_rules_are_on_stdout(demo: Path, names: Path) -> None:
    """Nothing else is, so that the output can be sent to a file."""
    result = run(demo, names)
    assert result.stdout.startswith("# Written by remapfs suggest")
    assert "gets the wanted name" not in result.stdout


def test_a_checkpoint_directory_is_a_reference(demo: Path) -> None:
    """The source itself: no rule is needed."""
    result = run(demo, demo)
    assert result.exit_code == 0
    assert "0 rename rules" in result.stderr


def test_what_is_left_over_is_named_and_fails(demo: Path, tmp_path: Path) -> None:
    """Exit code 1, and both sides on stderr, a pattern a line."""
    more = tmp_path / "more.txt"
    wanted = [name for name in native(demo) if "attn_sink" not in name]
    more.write_text("\n".join([*wanted, "vision.patch.bias"]) + "\n")
    result = run(demo, more)
    assert result.exit_code == 1
    assert "without counterpart: model.layers.{0-3}.self_attn.sinks   4 tensors" in result.stderr
    assert "wanted and missing: vision.patch.bias   1 tensor" in result.stderr
    assert "#   model.layers.{0-3}.self_attn.sinks   4 tensors" in result.stdout


def test_json_has_all_that_the_text_has(demo: Path, names: Path) -> None:
    """For machines."""
    result = run(demo, names, "--json")
    found = json.loads(result.stdout)
    assert found["complete"] is True
    assert found["mapped"] == found["tensors"] == 296
    assert all(rule["text"] in found["toml"] for rule in found["rules"])
    assert found["decided"]
    assert found["unmapped"] == found["missing"] == found["undecided"] == []


def test_a_target_that_cannot_be_written_is_said(demo: Path, names: Path, tmp_path: Path) -> None:
    """With its path."""
    result = run(demo, names, "-o", tmp_path / "absent" / "rules.toml")
    assert isinstance(result.exception, RemapError)
    assert "cannot write" in result.exception.message
