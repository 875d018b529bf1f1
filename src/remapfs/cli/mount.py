"""`remapfs mount`."""

from __future__ import annotations

import logging
import os
from functools import partial
from typing import TYPE_CHECKING

import click

from remapfs.cli.background import in_background
from remapfs.cli.config import takes_a_config
from remapfs.cli.logs import log_handler, log_to
from remapfs.cli.observing import Observing, asks_how_to_observe, record_erofs, warn
from remapfs.cli.planning import Asked, asks_for_a_plan
from remapfs.errors import RemapError
from remapfs.observe.events import event
from remapfs.plan import Finding, Kind, Plan
from remapfs.present.mountpoint import keeps_users_out
from remapfs.present.options import LOGGER, MountOptions
from remapfs.words import count

if TYPE_CHECKING:
    from remapfs.present.options import Presenter

_EPILOG = """
\b
Examples:
  remapfs mount /data/DeepSeek-V4-NVFP4 /mnt/v4 --preset deepseek-v4
  remapfs mount /data/DeepSeek-V4-NVFP4 /mnt/v4 --rules my-rules.toml --background
  remapfs mount ~/checkpoint ~/mnt --preset deepseek-v4 --allow-other
  remapfs mount --config /etc/remapfs/v4.toml
"""


@click.command(epilog=_EPILOG)
@click.argument("source")
@click.argument("mountpoint")
@asks_for_a_plan
@click.option(
    "--presenter",
    type=click.Choice(["auto", "fuse", "fusepy", "erofs"]),
    default="fuse",
    show_default=True,
    help="How the plan is made visible: fuse is fast and needs Linux; fusepy needs libfuse 2; erofs is "
    "served by the kernel alone, and needs root, Linux 6.12 and readers without O_DIRECT; auto takes the "
    "fastest that works here, and says why.",
)
@click.option("--image-dir", metavar="DIR", help="For erofs: where its image lies, on ext4, XFS or Btrfs.")
@click.option(
    "--background",
    is_flag=True,
    help="Return once the mount answers; the server goes on (erofs has none).",
)
@click.option("--private", is_flag=True, help="As root: let nobody else in, whatever the files' modes say.")
@click.option("--allow-other", is_flag=True, help="As another user: let others in too, as the modes allow.")
@click.option(
    "--threads", type=click.IntRange(1, 256), help="Serving threads.  [default: the presenter's own]"
)
@asks_how_to_observe
@click.option("--log", "log_file", metavar="FILE", help="Write the log there instead of stderr (or syslog).")
@takes_a_config
def mount(  # noqa: PLR0913  # one argument an option
    source: str,
    mountpoint: str,
    presenter: str,
    image_dir: str | None,
    log_file: str | None,
    threads: int | None,
    *,
    asked: Asked,
    observing: Observing,
    background: bool,
    private: bool,
    allow_other: bool,
) -> None:
    """Show the checkpoint SOURCE at the directory MOUNTPOINT under other names; SOURCE is never written to.

    Runs until it is unmounted or gets SIGTERM, SIGINT or SIGHUP. As root, every user is let in whom the
    source's own permissions let in; else only the user who mounts. Exit code 2 for bad input, with nothing
    mounted.
    """
    if private and allow_other:
        raise RemapError("--private and --allow-other exclude each other", "give one of them")
    plan = asked.plan(source)
    allow_other = allow_other or (os.geteuid() == 0 and not private)
    options = MountOptions(allow_other=allow_other, threads=threads, metrics=observing.metrics)
    if not background:
        log_to(log_handler(log_file, logging.StreamHandler, observing.form))
    warnings = [finding for finding in plan.findings if finding.kind is Kind.WARNED]
    if options.allow_other:
        warnings += _closed(plan)
    warn(warnings, observing, background=background)
    _check_fits(presenter, image_dir, observing)
    chosen = presenter == "auto"
    if chosen:
        presenter, why = _fastest(_why_no_erofs(plan, image_dir, observing))
        click.echo(f"presenter {presenter}: {why}", err=True)
    if presenter == "erofs" and background:
        # Nothing has to go on running: the kernel serves it.
        from remapfs.present import erofs  # noqa: PLC0415  # only what is asked for is imported

        log_to(log_handler(log_file, logging.StreamHandler, observing.form))
        erofs.mount(plan.without_names(), mountpoint, options, erofs.ImageOptions(image_dir))
        record_erofs(plan, mountpoint)
        return
    serve = _presenter(presenter, image_dir)
    if background:
        # Else the server, forked in here, would have the names as long as it lives.
        plan = plan.without_names()
        in_background(serve, plan, mountpoint, options, log_file, observing.form)
        return
    line = _start_line(plan, mountpoint, presenter)
    if presenter == "fuse" and not chosen and _erofs_looks_possible(plan):
        line += "; --presenter erofs would be faster here, if no reader uses O_DIRECT"
    plan = plan.without_names()

    def ready() -> None:
        LOGGER.info(
            line, extra=event("mounted", mountpoint=mountpoint, source=plan.root, presenter=presenter)
        )
        if presenter == "erofs":
            record_erofs(plan, mountpoint)

    serve(plan, mountpoint, options, ready)


def _presenter(name: str, image_dir: str | None) -> Presenter:
    if name == "fuse":
        from remapfs.present.fuse import serve  # noqa: PLC0415  # only what is asked for is imported

        return serve
    if name == "erofs":
        from remapfs.present import erofs  # noqa: PLC0415

        return partial(erofs.serve, image=erofs.ImageOptions(image_dir))
    from remapfs.present.fusepy import serve as serve_fusepy  # noqa: PLC0415

    return serve_fusepy


def _check_fits(presenter: str, image_dir: str | None, observing: Observing) -> None:
    if image_dir and presenter not in ("erofs", "auto"):
        raise RemapError("--image-dir is for --presenter erofs only", "leave it out")
    if observing.metrics and presenter == "erofs":
        raise RemapError(
            "--metrics: the kernel serves erofs alone, and counts nothing", "leave one of both out"
        )


def _why_no_erofs(plan: Plan, image_dir: str | None, observing: Observing) -> str | None:
    """Say why the kernel cannot serve the plan by itself here, or None."""
    if observing.metrics:
        return "it counts nothing for --metrics"
    from remapfs.present import erofs  # noqa: PLC0415  # only what is asked for is imported

    try:
        erofs.check(plan, erofs.ImageOptions(image_dir))
    except RemapError as error:
        return error.message
    return None


def _erofs_looks_possible(plan: Plan) -> bool:
    from remapfs.present import erofs  # noqa: PLC0415  # only what is asked for is imported

    return erofs.looks_possible(plan)


def _fastest(why_no_erofs: str | None) -> tuple[str, str]:
    if why_no_erofs is None:
        return "erofs", "the kernel serves it alone, at the speed of the disk; open files without O_DIRECT"
    if os.path.exists("/dev/fuse"):
        return "fuse", f"erofs is faster, but {why_no_erofs}"
    return "fusepy", f"/dev/fuse does not exist, and {why_no_erofs}"


def _closed(plan: Plan) -> list[Finding]:
    if not keeps_users_out(plan):
        return []
    text = "not every user can enter: a directory above the source does not let everyone through"
    return [Finding(Kind.LEFT, plan.root, text)]


def _start_line(plan: Plan, mountpoint: str, presenter: str) -> str:
    renamed = dropped = presented = 0
    for planned in plan.shards:
        gone = planned.names.count(None)
        dropped += gone
        presented += len(planned.names) - gone + len(planned.aliases)
        pairs = zip(planned.names, planned.shard.header.tensors, strict=True)
        renamed += sum(name != tensor.name for name, tensor in pairs) - gone
    healed = sum(finding.kind is Kind.HEALED for finding in plan.findings)
    left = sum(finding.kind is Kind.LEFT for finding in plan.findings)
    notes = "".join(f", {number} {what}" for number, what in ((healed, "healed"), (left, "left")) if number)
    more = f" ({notes[2:]}: see remapfs plan)" if notes else ""
    return (
        f"{plan.root} on {mountpoint} ({presenter}): {count(presented, 'tensor')} in "
        f"{count(len(plan.shards), 'shard')}, {renamed:,} renamed, {dropped:,} dropped{more}"
    )
