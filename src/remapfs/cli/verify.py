"""`remapfs verify`."""

from __future__ import annotations

import json
from dataclasses import asdict

import click

from remapfs.cli import output
from remapfs.cli.planning import Asked, asks_for_a_plan, no_collector
from remapfs.verify import Difference, Equal, verify_plan
from remapfs.words import count

_EPILOG = """
\b
Examples:
  remapfs verify /mnt/v4 /data/DeepSeek-V4-NVFP4 --preset deepseek-v4
  remapfs verify /mnt/v4 /data/DeepSeek-V4-NVFP4 --preset deepseek-v4 --sample 64
"""


@click.command(epilog=_EPILOG)
@click.argument("mountpoint")
@click.argument("source")
@asks_for_a_plan
@click.option(
    "--sample",
    type=click.IntRange(min=1),
    metavar="MIB",
    help="Compare so many MiB of each file, spread evenly, instead of every byte; headers always.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
def verify(mountpoint: str, source: str, *, asked: Asked, sample: int | None, as_json: bool) -> None:
    """Compare every tensor and file at MOUNTPOINT, a mount or an export, with those of SOURCE.

    Give the options that it was made with. Exit code 0 if all is equal, 1 at the first difference.
    """
    plan = asked.plan(source)
    with no_collector(), output.progress() as progress:
        answer = verify_plan(plan, mountpoint, sample, progress)
    tell(answer, as_json=as_json, sample=sample)


def tell(answer: Equal | Difference, *, as_json: bool, sample: int | None = None) -> None:
    """Print what was found; exits with code 1 at a difference."""
    equal = isinstance(answer, Equal)
    if as_json:
        click.echo(json.dumps({"equal": equal, **asdict(answer)}, indent=2, ensure_ascii=False))
    else:
        click.echo(_line(answer, sample))
    if not equal:
        raise click.exceptions.Exit(1)


def _line(answer: Equal | Difference, sample: int | None) -> str:
    match answer:
        case Equal(files, shards, tensors, compared):
            what = f"{count(tensors, 'tensor')} in {count(shards, 'shard')}, {count(files, 'file')}"
            how = f", a sample of {sample} MiB of each" if sample else ""
            return _styled(f"equal: {what}, {output.size(compared)} compared{how}", "green")
        case Difference(file, text, tensor):
            where = f", tensor {tensor!r}" if tensor is not None else ""
            return _styled(f"different: {file}{where}: {text}", "red")


def _styled(line: str, colour: str) -> str:
    return click.style(line, fg=colour, bold=True) if output.coloured() else line
