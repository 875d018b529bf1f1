"""The options that several commands share, and the plan that they ask for."""

from __future__ import annotations

import functools
import gc
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from remapfs.checkpoint import IndexMode, read_checkpoint
from remapfs.plan import Plan, make_plan
from remapfs.rules import Rules, file_parameters, load_preset, load_rules, preset_parameters
from remapfs.rules.parameters import check_known, settable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_Command = TypeVar("_Command", bound="Callable[..., object]")


@dataclass(frozen=True, slots=True)
class Asked:
    """What decides what is presented: presets and a rules file in order, the values of their parameters."""

    presets: tuple[str, ...] = ()
    rules_file: str | None = None
    values: tuple[tuple[str, str], ...] = ()
    mode: IndexMode = IndexMode.STRICT
    force: bool = False

    def rules(self) -> Rules:
        """Read presets and file; raises RemapError for whatever is wrong with them."""
        values = dict(self.values)
        known = file_parameters(self.rules_file) if self.rules_file else set()
        for name in self.presets:
            known |= settable(name, preset_parameters(name))
        check_known(values, known, "--set")
        rules = Rules("none")
        for name in self.presets:
            rules = load_preset(name, values).after(rules)
        return load_rules(self.rules_file, values).after(rules) if self.rules_file else rules

    def plan(self, source: str) -> Plan:
        """Read rules and checkpoint and make the plan."""
        rules = self.rules()
        with no_collector():
            checkpoint = read_checkpoint(
                source,
                mode=self.mode,
                hides=rules.hides,
                documents=rules.documents,
                unindexed=rules.unindexed,
            )
            return make_plan(checkpoint, rules, force=self.force)

    def arguments(self) -> list[str]:
        """Write these options as a command line has them."""
        return [
            *(word for name in self.presets for word in ("--preset", name)),
            *(("--rules", self.rules_file) if self.rules_file else ()),
            *(word for name, value in self.values for word in ("--set", f"{name}={value}")),
            *(("--index", self.mode.value) if self.mode is not IndexMode.STRICT else ()),
            *(("--force",) if self.force else ()),
        ]


def asks_for_a_plan(command: _Command) -> _Command:
    """Add the options that decide what is presented; the command gets them as `asked`."""

    @functools.wraps(command)
    def wrapped(
        *arguments: Any,  # noqa: ANN401  # the command's own
        preset: tuple[str, ...],
        rules_file: str | None,
        values: tuple[tuple[str, str], ...],
        mode: str,
        force: bool,
        **others: Any,  # noqa: ANN401  # the command's own
    ) -> object:
        asked = Asked(preset, rules_file, values, IndexMode(mode), force)
        return command(*arguments, asked=asked, **others)

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
            "--set",
            "values",
            metavar="NAME=VALUE",
            multiple=True,
            callback=_values,
            help="Give a parameter of the presets and of the rules its value (PRESET.NAME: of that preset "
            "alone); may be given several times.",
        ),
        click.option(
            "--rules", "rules_file", metavar="FILE", help="A TOML file of rules; applied after --preset."
        ),
        click.option(
            "--preset",
            metavar="NAME",
            multiple=True,
            help="Rules that ship with remapfs: see `remapfs presets`; several are applied in order.",
        ),
    ):
        wrapped = option(wrapped)
    return wrapped  # type: ignore[return-value]  # a command stays a command


def _values(
    context: click.Context, parameter: click.Parameter, given: Sequence[str]
) -> tuple[tuple[str, str], ...]:
    pairs = [text.partition("=") for text in given]
    seen = set()
    for name, equals, _ in pairs:
        if not name or not equals:
            raise click.BadParameter("it takes NAME=VALUE", ctx=context, param=parameter)
        if name in seen:
            raise click.BadParameter(f"it gives {name} twice", ctx=context, param=parameter)
        seen.add(name)
    return tuple((name, value) for name, _, value in pairs)


def plan_for(source: str, preset: str | None, rules_file: str | None, mode: str, *, force: bool) -> Plan:
    """Read rules and checkpoint and make the plan."""
    return Asked((preset,) if preset else (), rules_file, (), IndexMode(mode), force).plan(source)


@contextmanager
def no_collector() -> Iterator[None]:
    """Keep the cycle collector still: it would walk a million live objects again and again and free none."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
