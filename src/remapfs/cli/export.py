"""`remapfs export`."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from remapfs.cli import output
from remapfs.cli.planning import Asked, asks_for_a_plan, no_collector
from remapfs.cli.rates import byte_progress
from remapfs.cli.verify import tell
from remapfs.errors import RuntimeFailure
from remapfs.plan import Kind
from remapfs.present.reflink import ExportOptions, Reflink, export_plan
from remapfs.verify import verify_plan
from remapfs.words import count, size

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

    from remapfs.present.reflink import Exported

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_KILLED = 128
_EPILOG = """
\b
Examples:
  remapfs export /data/DeepSeek-V4-NVFP4 /data/v4 --preset deepseek-v4
  remapfs export /data/DeepSeek-V4-NVFP4 /data/v4 --preset deepseek-v4 --reflink always
  remapfs export /data/DeepSeek-V4-NVFP4 /mnt/other/v4 --preset deepseek-v4 --verify
"""


@click.command(epilog=_EPILOG)
@click.argument("source")
@click.argument("destination")
@asks_for_a_plan
@click.option(
    "--reflink",
    type=click.Choice([mode.value for mode in Reflink]),
    default=Reflink.AUTO.value,
    show_default=True,
    help="Share blocks with the source, on XFS, Btrfs and others: where possible; or refuse where not; "
    "or copy every byte.",
)
@click.option(
    "--link",
    is_flag=True,
    help="Make hard links of files that nothing is changed in: who writes to them writes to SOURCE.",
)
@click.option("--verify", is_flag=True, help="Compare everything with SOURCE at the end.")
def export(  # noqa: PLR0913  # one argument an option
    source: str, destination: str, *, asked: Asked, reflink: str, link: bool, verify: bool
) -> None:
    """Write the checkpoint SOURCE to the directory DESTINATION under other names, as real files.

    What was interrupted goes on where it ended when it is run again. Exit code 2 for bad input, with nothing
    written.
    """
    plan = asked.plan(source)
    output.findings(plan.findings, only=Kind.WARNED, err=True)
    if asked.rules_file:
        asked = replace(asked, rules_file=os.path.abspath(asked.rules_file))
    options = ExportOptions(Reflink(reflink), link, tuple(asked.arguments()))
    with _stopping() as (stop, received), byte_progress() as progress:
        try:
            done = export_plan(plan, destination, options, progress, stop)
        except RuntimeFailure as error:
            if received:
                error.exit_code = _KILLED + received[0]
            raise
    for reason in done.refused:
        click.echo(f"note: not all is shared with the source: {reason}", err=True)
    click.echo(_summary(done))
    if verify:
        with no_collector(), byte_progress() as progress:
            answer = verify_plan(plan, done.root, progress=progress)
        tell(answer, as_json=False)


@contextlib.contextmanager
def _stopping() -> Iterator[tuple[threading.Event, list[int]]]:
    """Give an event that is set by the first signal to end, and the signals that came."""
    stop = threading.Event()
    received: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        del frame
        received.append(number)
        stop.set()

    before = {number: signal.signal(number, note) for number in _SIGNALS}
    try:
        yield stop, received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _summary(done: Exported) -> str:
    if done.kept == done.files:
        return f"nothing to do: all {count(done.files, 'file')} in {done.root} are complete"
    parts = [f"{size(done.shared)} shared with the source", f"{size(done.copied)} written"]
    parts += [f"{size(done.holes)} of holes"] if done.holes else []
    parts += [f"{count(done.linked, 'hard link')}"] if done.linked else []
    parts += [f"{done.kept:,} complete before"] if done.kept else []
    return f"exported {count(done.files, 'file')} to {done.root}: {', '.join(parts)}"
