"""`remapfs doctor`."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING

import click

from remapfs.cli import output
from remapfs.cli.planning import Asked, asks_for_a_plan
from remapfs.doctor import Level, examine, look
from remapfs.errors import RemapError
from remapfs.words import count, printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from remapfs.doctor import Check

_COLOURS = {Level.GOOD: "green", Level.NOTE: "yellow", Level.PROBLEM: "red"}
_EPILOG = """
\b
Examples:
  remapfs doctor
  remapfs doctor /data/DeepSeek-V4-NVFP4 --preset deepseek-v4
  remapfs doctor /data/DeepSeek-V4-NVFP4 --presenter erofs --json
"""


@click.command(epilog=_EPILOG)
@click.argument("source", required=False)
@asks_for_a_plan
@click.option(
    "--presenter",
    type=click.Choice(["auto", "fuse", "fusepy", "erofs"]),
    default="fuse",
    show_default=True,
    help="What you want to mount with: what keeps it from working is a problem, the rest a note.",
)
@click.option("--image-dir", metavar="DIR", help="For erofs: where its image shall lie.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON: whether it is ready, and each check.")
def doctor(source: str | None, presenter: str, image_dir: str | None, *, asked: Asked, as_json: bool) -> None:
    """Say what this host can do for a mount, of SOURCE if it is given, and what to do about the rest.

    What can be tried is tried: a mount of nothing is made and ended, and beside SOURCE a block is shared with
    a file that has no name. SOURCE itself is only read. Exit code 0 if a mount will work, 1 if there is a
    problem.
    """
    if source is not None and not os.path.isdir(source):
        what = "is not a directory" if os.path.exists(source) else "does not exist"
        raise RemapError(f"{source} {what}", "give the directory of a checkpoint")
    checks = examine(look(partial(asked.plan, source) if source is not None else None, image_dir), presenter)
    problems = sum(check.level is Level.PROBLEM for check in checks)
    if as_json:
        told = {"ready": not problems, "presenter": presenter, "checks": [asdict(each) for each in checks]}
        click.echo(json.dumps(told, indent=2))
    else:
        click.echo("\n".join(_lines(checks)))
        end = f"{count(problems, 'problem')}" if problems else f"ready to mount with {presenter}"
        click.echo(f"\n{end}")
    if problems:
        raise click.exceptions.Exit(1)


def _lines(checks: Sequence[Check]) -> Iterator[str]:
    width = max(len(check.topic) for check in checks)
    for check in checks:
        level = f"{check.level:<7}"
        label = click.style(level, fg=_COLOURS[check.level]) if output.coloured() else level
        yield f"{label}  {check.topic:<{width}}  {printable(check.text)}"
        if check.do:
            yield f"{'':<7}  {'':<{width}}  → {printable(check.do)}"
