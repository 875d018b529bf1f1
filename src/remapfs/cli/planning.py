"""The options that several commands share, and the plan that they ask for."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

import click

from remapfs.checkpoint import IndexMode, read_checkpoint
from remapfs.plan import Plan, make_plan
from remapfs.rules import Rules, load_preset, load_rules

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_Command = TypeVar("_Command", bound="Callable[..., object]")


def plan_options(command: _Command) -> _Command:
    """Add the options that decide what is presented."""
    for option in (
        click.option(
            "--force", is_flag=True, help="Present also what the preset says its reader cannot load."
        ),
        click.option(
            "--index",
            "mode",
            type=click.Choice([mode.value for mode in IndexMode]),
            default=IndexMode.STRICT.value,
            show_default=True,
            help="Where index and headers disagree: refuse; hide what the index does not give; "
            "or derive the index from the headers.",
        ),
        click.option(
            "--rules", "rules_file", metavar="FILE", help="A TOML file of rules; applied after --preset."
        ),
        click.option("--preset", metavar="NAME", help="Rules that ship with remapfs: see `remapfs presets`."),
    ):
        command = option(command)
    return command


def plan_for(source: str, preset: str | None, rules_file: str | None, mode: str, *, force: bool) -> Plan:
    """Read rules and checkpoint and make the plan."""
    rules = load_preset(preset) if preset else Rules("none")
    if rules_file:
        rules = load_rules(rules_file).after(rules)
    with _no_collector():
        checkpoint = read_checkpoint(
            source,
            mode=IndexMode(mode),
            hides=rules.hides,
            documents=rules.documents,
            unindexed=rules.unindexed,
        )
        return make_plan(checkpoint, rules, force=force)


@contextmanager
def _no_collector() -> Iterator[None]:
    """Keep the cycle collector still: it would walk a million live objects again and again and free none."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
