"""`remapfs warm`."""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

import click

from remapfs.cli.rates import byte_progress
from remapfs.warm import fill, shards_of
from remapfs.warm.fill import THREADS
from remapfs.warm.memory import memory
from remapfs.words import count, size

if TYPE_CHECKING:
    from remapfs.warm import Report

_UNITS: Final = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_PERCENT: Final = 100
_EPILOG = """
\b
Examples:
  remapfs warm /mnt/v4
  remapfs warm /mnt/v4 --reserve 64G
  remapfs warm /mnt/v4 model-00001-of-00095.safetensors
"""


def _reserve(context: click.Context, parameter: click.Parameter, text: str) -> int:
    found = re.fullmatch(r"(\d+)([KMGT]?|%)", text)
    if not found:
        raise click.BadParameter(f"{text!r} is neither 16G nor 10%", ctx=context, param=parameter)
    if found[2] == "%":
        return memory().total * int(found[1]) // _PERCENT
    return int(found[1]) * _UNITS[found[2]]


@click.command(epilog=_EPILOG)
@click.argument("directory", metavar="MOUNTPOINT")
@click.argument("files", nargs=-1, metavar="[FILE]...")
@click.option(
    "--threads", type=click.IntRange(1, 64), default=THREADS, show_default=True, help="How many read at once."
)
@click.option(
    "--reserve",
    metavar="BYTES|SHARE%",
    default="10%",
    show_default=True,
    callback=_reserve,
    help="Leave so much memory available, as 16G or 10%, and stop before.",
)
@click.option("--json", "as_json", is_flag=True, help="Print what was done as JSON.")
def warm(directory: str, files: tuple[str, ...], threads: int, reserve: int, *, as_json: bool) -> None:
    """Read the shards at MOUNTPOINT into the page cache, in the order of a loader, as far as memory allows.

    What is cached already is not read again. Exit code 0 also if memory did not suffice for all, which is
    said; 1 if something cannot be read.
    """
    paths = shards_of(directory, files)
    with byte_progress() as progress:
        report = fill(paths, reserve, threads, progress)
    click.echo(json.dumps(asdict(report), indent=2) if as_json else _line(report, reserve))


def _line(report: Report, reserve: int) -> str:
    rate = f", {size(int(report.warmed / report.seconds))}/s" if report.warmed and report.seconds else ""
    line = f"warm: {count(report.files, 'file')}, {size(report.warmed)} read{rate}"
    if report.cached:
        line += f", {size(report.cached)} were cached already"
    if report.left:
        line += f"; {size(report.left)} left cold, to keep {size(reserve)} of memory available"
    return line
