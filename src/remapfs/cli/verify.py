"""`remapfs verify`."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from remapfs.checkpoint import IndexMode
from remapfs.cli import output
from remapfs.cli.planning import Asked, asks_for_a_plan, no_collector
from remapfs.cli.rates import byte_progress
from remapfs.errors import RemapError
from remapfs.verify import Difference, Equal, Share, verify_plan
from remapfs.verify.origin import MountOrigin, check_unchanged, origin_of
from remapfs.words import count, size

if TYPE_CHECKING:
    from remapfs.plan import Plan

_PERCENT = 100
_EPILOG = """
\b
Examples:
  remapfs verify /mnt/v4 /data/DeepSeek-V4-NVFP4 --preset deepseek-v4
  remapfs verify /mnt/v4 --preset deepseek-v4 --sample 64
  remapfs verify /data/v4-exported --sample 1%
"""


def _sample(context: click.Context, parameter: click.Parameter, text: str | None) -> int | Share | None:
    if text is None:
        return None
    try:
        if text.endswith("%"):
            share = float(text[:-1])
            if 0 < share <= _PERCENT:
                return Share(share / _PERCENT)
        elif int(text) > 0:
            return int(text)
    except ValueError:
        pass
    raise click.BadParameter(
        f"{text!r} is neither a number of MiB, as 64, nor a share, as 1%", ctx=context, param=parameter
    )


@click.command(epilog=_EPILOG)
@click.argument("mountpoint")
@click.argument("source", required=False)
@asks_for_a_plan
@click.option(
    "--sample",
    metavar="MIB|SHARE%",
    callback=_sample,
    help="Compare so many MiB or such a share of each file, spread evenly, instead of every byte; "
    "headers always.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
def verify(
    mountpoint: str, source: str | None, *, asked: Asked, sample: int | Share | None, as_json: bool
) -> None:
    """Compare every tensor and file at MOUNTPOINT, a mount or an export, with those of SOURCE.

    Give the options that it was made with. A mount knows its SOURCE, an export its options too. Exit code 0
    if all is equal, 1 at the first difference.
    """
    plan = _plan(mountpoint, source, asked)
    # Bytes that a sample leaves out have no rate.
    with no_collector(), byte_progress() if sample is None else output.progress() as progress:
        answer = verify_plan(plan, mountpoint, sample, progress)
    tell(answer, as_json=as_json, sample=sample)


def tell(answer: Equal | Difference, *, as_json: bool, sample: int | Share | None = None) -> None:
    """Print what was found; exits with code 1 at a difference."""
    equal = isinstance(answer, Equal)
    if as_json:
        click.echo(json.dumps({"equal": equal, **asdict(answer)}, indent=2))
    else:
        click.echo(_line(answer, sample))
    if not equal:
        raise click.exceptions.Exit(1)


def _plan(directory: str, source: str | None, asked: Asked) -> Plan:
    """Make the plan of SOURCE, or of what the directory itself says it shows."""
    if source is not None:
        return asked.plan(source)
    origin = origin_of(directory)
    if asked != Asked():
        return asked.plan(origin.source)
    if isinstance(origin, MountOrigin):
        raise RemapError(
            f"{directory} is a mount of {origin.source}, and does not say by which rules",
            "give the options that it was mounted with, as --preset; if there were none, the source",
        )
    context = verify.make_context("verify", [directory, origin.source, *origin.arguments])
    given = context.params
    asked = Asked(
        given["preset"], given["rules_file"], given["values"], IndexMode(given["mode"]), given["force"]
    )
    plan = asked.plan(origin.source)
    check_unchanged(origin, plan, directory)
    return plan


def _line(answer: Equal | Difference, sample: int | Share | None) -> str:
    match answer:
        case Equal(files, shards, tensors, compared):
            what = f"{count(tensors, 'tensor')} in {count(shards, 'shard')}, {count(files, 'file')}"
            return _styled(f"equal: {what}, {size(compared)} compared{_of(sample)}", "green")
        case Difference(file, text, tensor):
            where = f", tensor {tensor!r}" if tensor is not None else ""
            return _styled(f"different: {file}{where}: {text}", "red")


def _of(sample: int | Share | None) -> str:
    match sample:
        case None:
            return ""
        case Share(fraction):
            return f", a sample of {fraction * _PERCENT:g}% of each"
        case _:
            return f", a sample of {sample} MiB of each"


def _styled(line: str, colour: str) -> str:
    return click.style(line, fg=colour, bold=True) if output.coloured() else line
