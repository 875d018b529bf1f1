"""`remapfs plan`."""

from __future__ import annotations

import difflib
import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import click

from remapfs.cli import output
from remapfs.cli.planning import Asked, asks_for_a_plan
from remapfs.plan import Literal, Plan, Summary, dump, summarise
from remapfs.words import count, printable, size

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from remapfs.plan.model import Rewrite
    from remapfs.plan.summary import NamePattern

_DIFF_LINES = 60
_COLOURS = {"+": "green", "-": "red", "@": "cyan"}
_EPILOG = """
\b
Examples:
  remapfs plan /data/DeepSeek-V4-NVFP4 --preset deepseek-v4
  remapfs plan /data/DeepSeek-V4-NVFP4 --rules my-rules.toml --dump > plan.txt
  remapfs plan /data/DeepSeek-V4-NVFP4 --preset deepseek-v4 --json | jq .findings
"""


@click.command(epilog=_EPILOG)
@click.argument("source")
@asks_for_a_plan
@click.option("--dump", "as_dump", is_flag=True, help="Print the whole plan as stable text, for bug reports.")
@click.option("--json", "as_json", is_flag=True, help="Print the plan as JSON.")
@click.option("--html", "page", metavar="FILE", help="Also write a report to look at: one page.")
@click.option("--full-diff", is_flag=True, help="Do not shorten the diffs of JSON files.")
def plan(  # noqa: PLR0913  # one argument an option
    source: str,
    *,
    asked: Asked,
    as_dump: bool,
    as_json: bool,
    page: str | None,
    full_diff: bool,
) -> None:
    """Show what a mount of SOURCE would show: names by pattern, rules, changed JSON files, findings.

    Nothing is mounted. Exit code 2 if the mount would be refused.
    """
    made = asked.plan(source)
    if page:
        from remapfs.report import write_report  # noqa: PLC0415  # start-up time: few plans want a page

        write_report(page, made, None)
    if as_dump:
        for line in dump(made):
            click.echo(line)
    elif as_json:
        click.echo(json.dumps(_as_json(made), indent=2))
    else:
        _show(made, limit=None if full_diff else _DIFF_LINES)


def _show(made: Plan, limit: int | None) -> None:
    summary = summarise(made)
    for title, groups in (
        ("renamed", summary.renamed),
        ("dropped", summary.dropped),
        ("aliases", summary.aliased),
        ("untouched", summary.untouched),
    ):
        if groups:
            _heading(f"{title}: {count(sum(group.tensors for group in groups), 'tensor')}")
            _groups(groups)
    hits = [rule for rule in made.rules if rule.hits]
    if hits:
        _heading(f"rules that matched: {len(hits)} of {len(made.rules)}")
        width = max(len(f"{rule.hits:,}") for rule in hits)
        for rule in hits:
            click.echo(f"  {rule.hits:>{width},}   {printable(rule.text)}   ({printable(rule.rule)})")
    for rewrite in made.rewrites:
        _heading(f"{rewrite.path}:")
        for line in _diff(rewrite, limit):
            colour = _COLOURS.get(line[:1]) if output.coloured() else None
            shown = printable(line)
            click.echo("  " + click.style(shown, fg=colour) if colour else f"  {shown}")
    if made.findings:
        _heading("findings:")
        output.findings(made.findings)
    _heading(_total(made, summary))


def _groups(groups: Iterable[NamePattern]) -> None:
    rows = [
        (
            printable(
                group.before + (f" → {group.after}" if group.after not in (None, group.before) else "")
            ),
            count(group.tensors, "tensor").replace(",", ""),
            size(group.length),
        )
        for group in groups
    ]
    names, counts = (max(len(row[column]) for row in rows) for column in (0, 1))
    for name, tensors, length in rows:
        click.echo(f"  {name:<{names}}   {tensors:>{counts}}   {length:>8}")


def _heading(text: str) -> None:
    text = printable(text)
    click.echo(click.style(text, bold=True) if output.coloured() else text)


def _diff(rewrite: Rewrite, limit: int | None) -> Iterator[str]:
    before, after = (text.decode().splitlines() for text in (rewrite.before, rewrite.after))
    lines = list(difflib.unified_diff(before, after, "before", "after", lineterm="", n=2))[2:]
    yield from lines[:limit]
    if limit is not None and len(lines) > limit:
        yield f"… {len(lines) - limit} more lines: --full-diff"


def _total(made: Plan, summary: Summary) -> str:
    kinds = Counter(finding.kind for finding in made.findings)
    found = "".join(f", {number} {kind}" for kind, number in sorted(kinds.items()))
    own = sum(extent.length for file in made.files for extent in file.extents if isinstance(extent, Literal))
    return (
        f"{count(summary.tensors, 'tensor')} in {count(summary.shards, 'shard')}, "
        f"{size(summary.length)} passed through, {size(own)} written by remapfs{found}"
    )


def _as_json(made: Plan) -> dict[str, Any]:
    summary = summarise(made)
    return {
        "source": made.root,
        "tensors": summary.tensors,
        "tensor_bytes": summary.length,
        "names": {
            kind: [
                {
                    "before": group.before,
                    "after": group.after,
                    "tensors": group.tensors,
                    "bytes": group.length,
                }
                for group in groups
            ]
            for kind, groups in (
                ("renamed", summary.renamed),
                ("dropped", summary.dropped),
                ("aliased", summary.aliased),
                ("untouched", summary.untouched),
            )
        },
        "rules": [{"rule": rule.rule, "what": rule.text, "hits": rule.hits} for rule in made.rules],
        "rewrites": [{"file": rewrite.path, "diff": list(_diff(rewrite, None))} for rewrite in made.rewrites],
        "findings": [{"kind": f.kind.value, "file": f.file, "text": f.text} for f in made.findings],
        "files": [
            {
                "path": file.path,
                "bytes": file.size,
                "written_bytes": sum(e.length for e in file.extents if isinstance(e, Literal)),
            }
            for file in made.files
        ],
    }
