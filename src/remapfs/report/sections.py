"""The parts of the page that need no script: problems, rules, changed JSON files, findings, sizes."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from remapfs.report.marks import MARKS
from remapfs.report.text import escape, escape_lines, size
from remapfs.words import count

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from remapfs.check import Problem
    from remapfs.plan import Finding
    from remapfs.plan.model import Rewrite, RuleHits
    from remapfs.report.sizes import Bar
    from remapfs.report.verdict import Tally

_MOST = 300
_OPEN_DIFF = 40
_MOST_DIFF = 2000
_LONGEST = 400
_OPEN_BARS = 8
_KINDS = {"+": "added", "-": "removed", "@": "place"}


def legend(tallies: Sequence[Tally]) -> str:
    """Write the marks that occur, with their meaning and their numbers."""
    return "".join(_meaning(each) for each in tallies)


def problem_list(found: Sequence[Problem]) -> str:
    """Write each problem: what fails, how much, why, and what would fix it."""
    return "".join(_problem(problem) for problem in found[:_MOST]) + _more(len(found) - _MOST, "problem")


def rule_table(rules: Sequence[RuleHits]) -> str:
    """Write the rules that matched, and folded those that did not."""
    hits = [rule for rule in rules if rule.hits]
    rest = [rule for rule in rules if not rule.hits]
    if not rules:
        return '<p class="none">No rules were given.</p>'
    shown = _rules(hits) if hits else '<p class="none">No rule matched.</p>'
    return shown + (_folded(f"{count(len(rest), 'rule')} without a hit", _rules(rest)) if rest else "")


def rewrites(found: Sequence[Rewrite]) -> str:
    """Write each changed JSON file as a diff, folded where it is long."""
    return "".join(_rewrite(each) for each in found) or '<p class="none">No JSON file changes.</p>'


def finding_list(found: Iterable[Finding]) -> str:
    """Write findings, alike ones of many files once."""
    grouped: dict[tuple[str, str], list[str]] = {}
    for finding in found:
        grouped.setdefault((finding.kind, finding.text), []).append(finding.file)
    rows = [
        f'<li><span class="kind">{escape(kind)}</span> <code>{escape(files[0])}</code>'
        f"{f' and {len(files) - 1:,} more files' if len(files) > 1 else ''}: {escape(text)}</li>"
        for (kind, text), files in list(grouped.items())[:_MOST]
    ]
    if not rows:
        return '<p class="none">Nothing unusual was found.</p>'
    return f'<ul class="plain">{"".join(rows)}</ul>{_more(len(grouped) - _MOST, "finding")}'


def bar_chart(title: str, bars: Sequence[Bar]) -> str:
    """Write bars as a table, folded after the first few."""
    if not bars:
        return ""
    most = max(bar.length for bar in bars) or 1
    rows = [_bar(bar, most) for bar in bars[:_MOST]]
    head = f'<tr><th scope="col">{title}</th><th scope="col"><span class="unseen">share</span></th>'
    head += '<th scope="col">bytes</th><th scope="col">tensors</th></tr>'
    first = f'<table class="bars"><thead>{head}</thead><tbody>{"".join(rows[:_OPEN_BARS])}</tbody></table>'
    rest = f'<table class="bars"><thead class="unseen">{head}</thead><tbody>{"".join(rows[_OPEN_BARS:])}'
    rest += "</tbody></table>"
    folded = _folded(f"{len(bars) - _OPEN_BARS:,} more", rest) if len(bars) > _OPEN_BARS else ""
    return f"<div>{first}{folded}{_more(len(bars) - _MOST, 'line')}</div>"


def _meaning(tally: Tally) -> str:
    mark = tally.mark
    length = f" · {size(tally.length)}" if tally.length else ""
    return (
        f'<li><span class="tile" data-mark="{mark.key}" aria-hidden="true">{mark.glyph}</span>'
        f'<span><b>{mark.label}</b> <span class="num">{tally.tensors:,}</span>'
        f'<span class="meaning">{escape(mark.meaning)}{length}</span></span></li>'
    )


def _problem(problem: Problem) -> str:
    mark = MARKS[problem.outcome]
    moved = problem.source not in (None, problem.name) and problem.name is not None
    facts = [
        ("on disk", f"<code>{_breakable(problem.source or '')}</code>") if moved else None,
        ("why", escape(problem.reason)) if problem.reason else None,
        ("for example", f"<code>{_breakable(problem.example)}</code>")
        if problem.example != problem.pattern
        else None,
        ("nearest", f"<code>{_breakable(problem.nearest)}</code>") if problem.nearest else None,
        ("fix", f"<pre>{escape_lines(problem.fix)}</pre>") if problem.fix else None,
    ]
    listed = "".join(f"<dt>{term}</dt><dd>{text}</dd>" for term, text in filter(None, facts))
    length = f", {size(problem.length)}" if problem.length else ""
    return (
        f'<li><span class="tile" data-mark="{mark.key}" aria-hidden="true">{mark.glyph}</span><div>'
        f"<h3><code>{_breakable(problem.pattern)}</code></h3>"
        f'<p class="amount"><b>{mark.label}</b> · {count(problem.tensors, "tensor")}{length}</p>'
        f"{f'<dl>{listed}</dl>' if listed else ''}</div></li>"
    )


def _breakable(name: str) -> str:
    return escape(name).replace(".", ".<wbr>")


def _rules(rules: Sequence[RuleHits]) -> str:
    rows = "".join(
        f'<tr><td class="num">{rule.hits:,}</td><td><code>{escape(rule.text)}</code></td>'
        f'<td class="origin">{escape(rule.rule)}</td></tr>'
        for rule in rules
    )
    head = (
        '<th scope="col" class="num">hits</th><th scope="col">rule</th><th scope="col">where it stands</th>'
    )
    table = f'<table class="rules"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'
    return f'<div class="scroll">{table}</div>'


def _rewrite(rewrite: Rewrite) -> str:
    lines = list(_diff(rewrite))
    path = f"<code>{escape(rewrite.path)}</code>"
    added, removed = (sum(line.startswith(sign) for line in lines) for sign in "+-")
    amount = f"{count(added, 'line')} added, {removed:,} removed"
    text = "".join(
        f'<span class="{_KINDS.get(line[:1], "same")}">{escape(line[:_LONGEST])}'
        f"{'…' if len(line) > _LONGEST else ''}\n</span>"
        for line in lines[:_MOST_DIFF]
    )
    body = f'<pre class="diff" tabindex="0">{text}</pre>{_more(len(lines) - _MOST_DIFF, "line")}'
    opened = " open" if len(lines) <= _OPEN_DIFF else ""
    return f"<details{opened}><summary>{path} <span class=amount>{amount}</span></summary>{body}</details>"


def _diff(rewrite: Rewrite) -> Iterator[str]:
    before, after = (text.decode(errors="replace").splitlines() for text in (rewrite.before, rewrite.after))
    yield from list(difflib.unified_diff(before, after, lineterm="", n=2))[2:]


def _bar(bar: Bar, most: int) -> str:
    width = f"{100 * bar.length / most:.2f}"
    drawn = f'<svg aria-hidden="true"><rect width="{width}%" height="100%" rx="2"/></svg>'
    return (
        f'<tr><th scope="row"><code>{_breakable(bar.name)}</code></th><td class="bar">{drawn}</td>'
        f'<td class="num">{size(bar.length)}</td><td class="num">{bar.tensors:,}</td></tr>'
    )


def _folded(summary: str, body: str) -> str:
    return f"<details><summary>{summary}</summary>{body}</details>"


def _more(number: int, what: str) -> str:
    return f'<p class="none">{count(number, f"more {what}")} not shown here.</p>' if number > 0 else ""
