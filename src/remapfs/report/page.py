"""One page that needs nothing else: no network, no fonts, no library."""

from __future__ import annotations

import base64
import hashlib
import re
from importlib.resources import files
from string import Template
from typing import TYPE_CHECKING

from remapfs import __version__
from remapfs.check.problems import problems as group_problems
from remapfs.report import sections, sizes
from remapfs.report.encode import encode
from remapfs.report.families import families
from remapfs.report.items import items
from remapfs.report.places import places
from remapfs.report.text import escape
from remapfs.report.verdict import tally, verdict
from remapfs.words import count

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from remapfs.check import Answer, Problem
    from remapfs.plan import Plan
    from remapfs.report.encode import Encoded

_SCRIPTS = ("data.js", "search.js", "grid.js", "detail.js", "names.js", "keys.js")
_RULES_FILE = re.compile(r"\w+ rule \d+ in (.*) \(line \d+\)", re.DOTALL)


def report(
    plan: Plan, answer: Answer | None, problems: Sequence[Problem] = (), *, made: datetime | None = None
) -> str:
    """Write a plan, or an answer about it, as one HTML page.

    `problems` are the answer's, with their fixes; without them they are found anew, which have none. `made`
    is the time that the page bears; apart from it, the page is the same for the same input.
    """
    found = list(items(plan, answer))
    tallies = tally(found)
    said = verdict(tallies, answer)
    grouped = families(found)
    placed = places(grouped)
    data = encode(grouped, placed)
    failing = list(problems) or (group_problems(answer.judged) if answer else [])
    style, script = _asset("page.css"), _script()
    return Template(_asset("page.html")).substitute(
        policy=f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; "
        "base-uri 'none'; form-action 'none'",
        style=style,
        script=script,
        data=data.text,
        tone=said.tone,
        title=escape(said.title),
        lines="".join(f"<p>{escape(line)}</p>" for line in said.lines),
        notes="".join(f"<li>{escape(note)}</li>" for note in answer.notes) if answer else "",
        facts=_facts(plan, answer, made),
        legend=sections.legend(tallies),
        left_out=_left_out(data),
        problems=_problems(failing, answer),
        rules=sections.rule_table(plan.rules),
        rewrites=sections.rewrites(plan.rewrites),
        findings=sections.finding_list(plan.findings),
        sizes="".join(
            (
                sections.bar_chart("component", sizes.by_component(grouped, placed)),
                sections.bar_chart("dtype", sizes.by_dtype(grouped)),
                sections.bar_chart("shard", sizes.by_shard(plan)),
            )
        ),
    )


def _facts(plan: Plan, answer: Answer | None, made: datetime | None) -> str:
    matches = (_RULES_FILE.fullmatch(rule.rule) for rule in plan.rules)
    rules = dict.fromkeys(match[1] for match in matches if match)
    facts = [
        ("source", f"<code>{escape(plan.root)}</code>"),
        ("against", escape(answer.against)) if answer else None,
        ("rules", ", ".join(f"<code>{escape(file)}</code>" for file in rules) or "none"),
        ("shards", f"{len(plan.shards):,}"),
        ("remapfs", escape(__version__)),
        ("made", f'<time datetime="{made.isoformat()}">{made:%Y-%m-%d %H:%M} {made:%Z}</time>')
        if made
        else None,
    ]
    return "".join(f"<div><dt>{term}</dt><dd>{text}</dd></div>" for term, text in filter(None, facts))


def _problems(failing: Sequence[Problem], answer: Answer | None) -> str:
    if answer is None:
        return ""
    body = (
        f'<ol class="problems">{sections.problem_list(failing)}</ol>'
        if failing
        else ('<p class="none">None.</p>')
    )
    return (
        '<section aria-labelledby="problems-title" id="problems"><h2 id="problems-title">Problems</h2>'
        f"{body}</section>"
    )


def _left_out(data: Encoded) -> str:
    if not data.families_left_out:
        return ""
    return (
        f'<p class="warning">{count(data.tensors_left_out, "tensor")} of '
        f"{count(data.families_left_out, 'pattern')} did not fit into this page: grid, tree and search do "
        "not show them. The numbers above and the problems count them.</p>"
    )


def _script() -> str:
    return f'"use strict";(() => {{\n{"".join(map(_asset, _SCRIPTS))}}})();'


def _asset(name: str) -> str:
    return files("remapfs.report").joinpath("assets", name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
