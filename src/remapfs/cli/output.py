"""How the command line speaks to a person."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from remapfs.plan.model import Kind
from remapfs.words import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from remapfs.errors import RemapError
    from remapfs.plan.model import Finding

_COLOURS = {Kind.HEALED: "green", Kind.WARNED: "yellow", Kind.LEFT: "cyan"}


def failure(error: RemapError) -> None:
    """Print an error and its hint on stderr."""
    _labelled("error", "red", error.message)
    if error.hint:
        _labelled("hint", "cyan", error.hint)


def findings(found: Iterable[Finding], *, only: Kind | None = None, err: bool = False) -> None:
    """Print findings, one a line, those of one kind if `only` is given; alike ones of many files once."""
    grouped: dict[tuple[Kind, str], list[str]] = {}
    for finding in found:
        if only in (None, finding.kind):
            grouped.setdefault((finding.kind, finding.text), []).append(finding.file)
    for (kind, text), files in grouped.items():
        where = files[0] if len(files) == 1 else f"{len(files)} files ({files[0]}, …)"
        label = click.style(f"{kind:<7}", fg=_COLOURS[kind])
        _say(f"{label} {printable(where)}: {printable(text)}", err=err)


@contextmanager
def progress() -> Iterator[Callable[[str, int, int], None]]:
    """Give a function that shows what is being done and how far it is, in one line that is gone at the end.

    It takes a sentence, how many are done and of how many, 0 where not known. Only a terminal sees it.
    """
    if not sys.stderr.isatty():
        yield lambda *_: None
        return
    from rich.console import Console  # noqa: PLC0415  # start-up time: most commands show no progress
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415

    columns = TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("starting", total=None)
        yield lambda doing, done, of: bar.update(task, description=doing, completed=done, total=of or None)


def coloured(*, err: bool = False) -> bool:
    """Whether to colour: only on a terminal, and not where NO_COLOR is set."""
    return (sys.stderr if err else sys.stdout).isatty() and "NO_COLOR" not in os.environ


def _labelled(label: str, colour: str, text: str) -> None:
    lines = text.split("\n")
    head = click.style(f"{label}:", fg=colour, bold=True) if coloured(err=True) else f"{label}:"
    indent = " " * 7
    _say(f"{head}{' ' * (len(indent) - len(label) - 1)}{printable(lines[0])}", err=True)
    for line in lines[1:]:
        _say(indent + printable(line), err=True)


def _say(line: str, *, err: bool) -> None:
    try:
        click.echo(line, err=err, color=None if coloured(err=err) else False)
    except OSError:
        # A stderr that takes nothing, such as a log on a full disk, is no reason to stop.
        if not err:
            raise
