"""The options that say how a mount is seen while it works."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import click

from remapfs.cli import output
from remapfs.cli.logs import LogForm, is_journal
from remapfs.observe.events import event
from remapfs.present.options import LOGGER

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from remapfs.plan import Finding, Plan

_Command = TypeVar("_Command", bound="Callable[..., object]")


@dataclass(frozen=True, slots=True)
class Observing:
    """The address on which Prometheus may ask, None if it may not, and what lines of the log are."""

    metrics: str | None = None
    form: LogForm = LogForm.TEXT


def asks_how_to_observe(command: _Command) -> _Command:
    """Add `--metrics` and `--log-format`; the command gets them as `observing`."""

    @functools.wraps(command)
    def wrapped(
        *arguments: Any,  # noqa: ANN401  # the command's own
        metrics: str | None,
        log_format: str,
        **others: Any,  # noqa: ANN401  # the command's own
    ) -> object:
        return command(*arguments, observing=Observing(metrics, LogForm(log_format)), **others)

    for option in (
        click.option(
            "--log-format",
            type=click.Choice([form.value for form in LogForm]),
            default=LogForm.TEXT.value,
            show_default=True,
            help="What a line of the log is; json: an object.",
        ),
        click.option(
            "--metrics",
            metavar="[HOST:]PORT",
            callback=_address,
            help="Serve figures for Prometheus on this loopback address, as 9464 or 127.0.0.1:9464; needs "
            "the prometheus-client package.",
        ),
    ):
        wrapped = option(wrapped)
    return wrapped  # type: ignore[return-value]  # a command stays a command


def warn(found: Sequence[Finding], observing: Observing, *, background: bool) -> None:
    """Show findings to a person, or log them where programs read stderr."""
    if background or (observing.form is LogForm.TEXT and not is_journal()):
        output.findings(found, err=True)
        return
    for finding in found:
        told = event("finding", kind=finding.kind.value, file=finding.file)
        LOGGER.warning("%s %s: %s", finding.kind, finding.file, finding.text, extra=told)


def record_erofs(plan: Plan, mountpoint: str) -> None:
    """Keep for `remapfs status` what is mounted at `mountpoint`, which the kernel serves alone."""
    from remapfs.observe.answering import about_plan  # noqa: PLC0415  # only what is asked for is imported
    from remapfs.observe.records import keep_record  # noqa: PLC0415
    from remapfs.present.mountpoint import mounted_at, resolve  # noqa: PLC0415

    mount = mounted_at(resolve(mountpoint))
    if mount is not None and mount.is_ours:
        # Of a very long path the mount tells the end only, and that is how it is known again.
        keep_record(replace(about_plan(plan, mount.path, mount.device, "erofs"), source=mount.checkpoint))


def _address(context: click.Context, parameter: click.Parameter, text: str | None) -> str | None:
    del context, parameter
    if text is not None:
        from remapfs.observe.metrics import check  # noqa: PLC0415  # start-up time: few mounts want it

        check(text)
    return text
