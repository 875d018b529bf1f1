"""`remapfs status`."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from remapfs.cli import output
from remapfs.errors import RemapError
from remapfs.words import count, size, some

if TYPE_CHECKING:
    from collections.abc import Iterator

_SERVING = "serving"
_MOST_READERS = 8
_UNITS = ((86400, "d"), (3600, "h"), (60, "min"))
_EPILOG = """
\b
Examples:
  remapfs status
  remapfs status /mnt/v4
  remapfs status /mnt/v4 --json
"""


@click.command(epilog=_EPILOG)
@click.argument("mountpoint", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON: an object for MOUNTPOINT, else a list.")
def status(mountpoint: str | None, *, as_json: bool) -> None:
    """Say how the mount at MOUNTPOINT fares, or all mounts of remapfs: what it shows, who reads, how fast.

    Nothing is asked of the mount itself, so it answers though the server is stopped or dead. Only root and
    the user who mounted get figures. Exit code 0 if readers are served, 1 if not, or if that cannot be told.
    """
    from remapfs.observe.ask import status_of  # noqa: PLC0415 - --help need not wait for it
    from remapfs.observe.mounts import all_mounts, find  # noqa: PLC0415

    if mountpoint is None:
        documents = [status_of(mount) for mount in all_mounts()]
    else:
        mount = find(mountpoint)
        if mount is None:
            raise RemapError(f"no mount of remapfs at {mountpoint}", "see all of them: remapfs status")
        documents = [status_of(mount)]
    if as_json:
        shown = documents if mountpoint is None else documents[0]
        click.echo(json.dumps(shown, indent=2))
    elif documents:
        click.echo("\n\n".join("\n".join(_lines(each)) for each in documents))
    else:
        click.echo("nothing is mounted by remapfs here")
    if any(each["state"] != _SERVING for each in documents):
        raise click.exceptions.Exit(1)


def _lines(told: dict[str, Any]) -> Iterator[str]:
    good = told["state"] == _SERVING
    state = told["state"] + (f": {told['why']}" if told.get("why") else "")
    if output.coloured():
        state = click.style(state, fg="green" if good else "red", bold=True)
    yield f"{_plain(told['mountpoint'])}  {state}"
    for label, text in _fields(told):
        yield f"  {label:<10} {_plain(text)}"


def _fields(told: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield "source", told["source"]
    yield "presenter", " ".join(filter(None, (told.get("presenter") or "not told", told.get("version"))))
    if rules := told.get("rules"):
        yield "rules", f"{count(rules['count'], 'rule')}, digest {rules['digest']}"
    if told.get("uptime") is not None:
        yield "since", f"{told['since']} ({_duration(told['uptime'])})"
    if told.get("generations"):
        end = told["last_end"]
        last = f"; the last one {end['how']} {_duration(end['seconds_ago'])} ago" if end else ""
        yield "servers", f"{told['generations']}{last}"
    if told.get("reads") is not None:
        yield "read", f"{size(told['read_bytes'])} in {count(told['reads'], 'read')}{_last(told)}"
        rate = told["rate"]
        now, overall = size(rate["now"]), size(rate["overall"])
        yield "rate", f"{now}/s over the last {rate['seconds']:.0f} s, {overall}/s over all"
        errors = ", ".join(f"{number:,} {name}" for name, number in told["errors"].items())
        yield "errors", errors or "none"
    if failure := told.get("failure"):
        yield "failed", f"{failure['file']}: {failure['text']} ({failure['time']})"
    yield "readers", _readers(told)
    if told.get("memory"):
        processes = ", ".join(
            f"{name} (pid {each['pid']}) {size(each['memory'] or 0)}"
            for name, each in told["processes"].items()
        )
        yield "memory", f"{size(told['memory'])}: {processes}"
    if told.get("metrics"):
        yield "metrics", f"http://{told['metrics']}/metrics"


def _last(told: dict[str, Any]) -> str:
    if told["last_read"] is None:
        return ""
    ago = (datetime.now(UTC) - datetime.fromisoformat(told["last_read"])).total_seconds()
    return f", the last {_duration(max(ago, 0))} ago"


def _readers(told: dict[str, Any]) -> str:
    found = told["readers"]
    if found is None:
        return "not known: a process could not be looked into in time"
    shown = [
        f"{each['command']} (pid {each['pid']}): {each['open']} open, {each['mapped']} mapped"
        for each in found
    ]
    unseen = (
        f" ({told['unseen']:,} of the host's processes could not be looked into)" if told["unseen"] else ""
    )
    return (some(shown, _MOST_READERS) if shown else "none") + unseen


def _duration(seconds: float) -> str:
    for unit, name in _UNITS:
        if seconds >= unit:
            whole, rest = divmod(int(seconds), unit)
            smaller = {"d": (3600, "h"), "h": (60, "min")}.get(name)
            more = f" {rest // smaller[0]} {smaller[1]}" if smaller and rest // smaller[0] else ""
            return f"{whole} {name}{more}"
    return f"{seconds:.0f} s"


def _plain(text: str) -> str:
    """Show what would move the cursor of a terminal, or is no character, in a form that does not."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
