"""`remapfs suggest`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from remapfs.check.reference import component, read_reference
from remapfs.checkpoint import IndexMode, read_checkpoint
from remapfs.cli.planning import no_collector
from remapfs.errors import RemapError
from remapfs.rules.model import Rename
from remapfs.suggest import Named, toml
from remapfs.suggest import suggest as find_rules
from remapfs.suggest.write import table
from remapfs.words import count

if TYPE_CHECKING:
    from collections.abc import Iterable

    from remapfs.suggest import LeftOver, Suggestion

_EPILOG = """
\b
Examples:
  remapfs suggest /data/My-Model /data/My-Model-native -o my-rules.toml
  remapfs suggest /data/My-Model model.safetensors.index.json > my-rules.toml
  remapfs plan /data/My-Model --rules my-rules.toml
"""


@click.command(epilog=_EPILOG)
@click.argument("source")
@click.argument("reference", metavar="REF")
@click.option("-o", "--output", "target", metavar="FILE", help="Write the rules to FILE, not to stdout.")
@click.option("--json", "as_json", is_flag=True, help="Print the suggestion as JSON.")
@click.option(
    "--index",
    "mode",
    type=click.Choice([mode.value for mode in IndexMode]),
    default=IndexMode.STRICT.value,
    show_default=True,
    help="Where SOURCE's index and headers disagree: as for mount.",
)
def suggest(source: str, reference: str, target: str | None, mode: str, *, as_json: bool) -> None:
    """Write rules that give SOURCE's tensors the names of REF.

    REF has the wanted names: a checkpoint directory, a shard, an index JSON, or a text file with one name a
    line. It may be of another size, and quantised or not. Nothing is mounted, no weight is read.

    Exit code 0 if every name was mapped, 1 if something is left over.
    """
    with no_collector():
        found = _suggest(source, reference, mode)
    text = json.dumps(_as_json(found), indent=2) if as_json else toml(found).rstrip("\n")
    if target is None:
        click.echo(text)
    else:
        _write(target, text + "\n")
    _summary(found)
    if not found.complete:
        raise click.exceptions.Exit(1)


def _suggest(source: str, reference: str, mode: str) -> Suggestion:
    wanted = read_reference(reference).tensors
    checkpoint = read_checkpoint(source, mode=IndexMode(mode))
    # Rules see a tensor's name without the directory of its component.
    folders = sorted({component(shard) for shard in checkpoint.shards} - {""})
    return find_rules(
        [
            Named(tensor.name, tensor.dtype, tensor.shape)
            for shard in checkpoint.shards
            for tensor in shard.header.tensors
        ],
        [Named(_without(name, folders), form.dtype, form.shape) for name, form in wanted.items()],
    )


def _without(name: str, folders: Iterable[str]) -> str:
    for folder in folders:
        if name.startswith(folder):
            return name[len(folder) :]
    return name


def _write(path: str, text: str) -> None:
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise RemapError(f"cannot write {path}: {error.strerror}", "check the path of --output") from None


def _summary(found: Suggestion) -> None:
    drops = sum(not isinstance(rule.step, Rename) for rule in found.rules)
    rules = count(len(found.rules) - drops, "rename rule") + (
        f", {count(drops, 'drop rule')}" if drops else ""
    )
    _say(f"{rules}: {found.mapped:,} of {count(found.tensors, 'tensor')} get the wanted name")
    for note in found.notes:
        _say(f"note: {note}")
    chosen = sum(len(decision.pairs) for decision in found.decided)
    if chosen:
        _say(f"chosen by name where several fit: {count(chosen, 'pattern')}, listed at the end: check them")
    for sentence in found.undecided:
        _say(f"not decided: {sentence}")
    for label, over in (("without counterpart", found.unmapped), ("wanted and missing", found.missing)):
        for pattern, tensors in over:
            _say(f"{label}: {pattern}   {count(tensors, 'tensor')}")


def _say(text: str) -> None:
    click.echo(text, err=True)


def _as_json(found: Suggestion) -> dict[str, Any]:
    return {
        "complete": found.complete,
        "tensors": found.tensors,
        "mapped": found.mapped,
        "rules": [
            {
                "kind": rule.step.origin.kind,
                "tensors": rule.tensors,
                "comment": list(rule.comment),
                "text": "\n".join(table(rule.step)),
            }
            for rule in found.rules
        ],
        "notes": list(found.notes),
        "decided": [
            {"why": decision.why, "pairs": [list(pair) for pair in decision.pairs]}
            for decision in found.decided
        ],
        "undecided": list(found.undecided),
        "unmapped": _left(found.unmapped),
        "missing": _left(found.missing),
        "toml": toml(found),
    }


def _left(over: Iterable[LeftOver]) -> list[dict[str, Any]]:
    return [{"pattern": pattern, "tensors": tensors} for pattern, tensors in over]
