"""Checkpoints to compare, and what was found, in a form that is short to write."""

from __future__ import annotations

from typing import TYPE_CHECKING

from remapfs import make_plan, open_file, read_checkpoint
from remapfs.check import check_against, problems
from remapfs.demo import write_checkpoint
from remapfs.rules import load_preset, parse_rules

if TYPE_CHECKING:
    from pathlib import Path

    from remapfs import Plan
    from remapfs.check import Answer


def demo(folder: Path) -> Path:
    """Write the package's small NVFP4 checkpoint under Hugging Face names."""
    folder.mkdir()
    write_checkpoint(folder)
    return folder


def planned(source: Path, rules: str = "", preset: str | None = "deepseek-v4") -> Plan:
    """Plan a checkpoint under a preset and further rules."""
    parsed = parse_rules(rules, "rules.toml")
    parsed = parsed.after(load_preset(preset)) if preset else parsed
    return make_plan(read_checkpoint(source, documents=parsed.documents), parsed)


def copy(plan: Plan, folder: Path) -> Path:
    """Write what a plan presents as a real directory."""
    for directory in plan.directories:
        (folder / directory.path).mkdir(parents=True)
    for file in plan.files:
        (folder / file.path).write_bytes(open_file(file).read())
    return folder


def found(answer: Answer) -> list[tuple[str, str, int]]:
    """Give the problems as (outcome, names, number of tensors)."""
    return [(each.outcome.value, each.pattern, each.tensors) for each in problems(answer.judged)]


def asked(plan: Plan, reference: Path) -> list[tuple[str, str, int]]:
    """Check a plan and give the problems."""
    return found(check_against(plan, str(reference))[0])
