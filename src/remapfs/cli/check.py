"""`remapfs check`."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from typing import TYPE_CHECKING, Any

import click

from remapfs.check import LoaderUnavailable, Outcome, check_against
from remapfs.cli import output
from remapfs.cli.planning import Asked, asks_for_a_plan, no_collector
from remapfs.report import write_report
from remapfs.words import count, size

if TYPE_CHECKING:
    from collections.abc import Iterable

    from remapfs.check import Answer, Problem

_COLOURS = {
    Outcome.REFUSED: "red",
    Outcome.IGNORED: "magenta",
    Outcome.MISSING: "red",
    Outcome.DIFFERENT: "yellow",
    Outcome.UNEXPECTED: "yellow",
}
_RULES = 6
_ALIKE = 3
_EPILOG = """
\b
Examples:
  remapfs check /data/DeepSeek-V4-NVFP4 --preset deepseek-v4 --against vllm
  remapfs check /data/DeepSeek-V4-NVFP4 --preset deepseek-v4 --against /data/DeepSeek-V4
  remapfs check /data/My-Model --rules my-rules.toml --against model.safetensors.index.json --json
  remapfs check /data/My-Model --preset deepseek-v4 --against vllm --python /opt/vllm/bin/python --html r.html
"""


@click.command(epilog=_EPILOG)
@click.argument("source")
@asks_for_a_plan
@click.option(
    "--against",
    "references",
    metavar="REF",
    required=True,
    multiple=True,
    help="What wants the tensors: a checkpoint directory, a shard, an index JSON, a text file of names; "
    "or vllm, for a dry run of its loader. Given several times, all are asked, and one that vLLM cannot "
    "answer here is left to the others.",
)
@click.option(
    "--python",
    metavar="PATH",
    help="With --against vllm: the Python of the environment that vLLM is installed in.  [default: this one]",
)
@click.option(
    "--trust-remote-code", is_flag=True, help="With --against vllm: let it run the checkpoint's own code."
)
@click.option("--html", "page", metavar="FILE", help="Write a report to look at: one page, of the last REF.")
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON; of several, a list.")
def check(  # noqa: PLR0913  # one argument an option
    source: str,
    *,
    asked: Asked,
    references: tuple[str, ...],
    python: str | None,
    trust_remote_code: bool,
    page: str | None,
    as_json: bool,
) -> None:
    """Say whether SOURCE, remapped, has exactly the tensors that REF wants.

    Nothing is mounted, no weight is read. Exit code 0 if it will load, 1 if not.
    """
    made = asked.plan(source)
    answers = []
    with no_collector(), output.progress() as progress:
        for reference in references:
            try:
                answer, found = check_against(
                    made, reference, python=python, trust_remote_code=trust_remote_code, progress=progress
                )
            except LoaderUnavailable as error:
                if len(references) == 1:
                    raise
                click.echo(f"note: {error.message}", err=True)
                continue
            answers.append((reference, answer, found))
        if page:
            _, answer, found = answers[-1]
            write_report(page, made, answer, found)
    if as_json:
        told = [_as_json(answer, found) for _, answer, found in answers]
        click.echo(json.dumps(told if len(references) > 1 else told[0], indent=2))
    else:
        for reference, answer, found in answers:
            _show(answer, found, shlex.join(["remapfs", "suggest", source, reference]))
    if not all(answer.loads for _, answer, _ in answers):
        raise click.exceptions.Exit(1)


def _show(answer: Answer, found: list[Problem], suggest: str) -> None:
    # One line for all says more than the same line again and again, and so do rules that are found together.
    fixes = Counter(problem.fix for problem in found if problem.fix)
    often = [fix for fix, times in fixes.items() if times > _ALIKE]
    for outcome in dict.fromkeys(problem.outcome for problem in found):
        own = [problem for problem in found if problem.outcome is outcome]
        reasons = {problem.reason for problem in own}
        shared = reasons.pop() if len(reasons) == 1 and len(own) > _ALIKE else ""
        title = f"{outcome}: {count(sum(problem.tensors for problem in own), 'tensor')}"
        title += f" ({shared})" if shared else ""
        click.echo(click.style(title, fg=_COLOURS[outcome], bold=True) if output.coloured() else title)
        for problem in own:
            _problem(problem, reason=not shared, fix=len(fixes) <= _RULES and problem.fix not in often)
    for note in answer.notes:
        click.echo(f"note: {note}")
    for fix in often:
        click.echo(f"fix:  {fix}   ({count(fixes[fix], 'line')} above)")
    if len(fixes) > _RULES:
        click.echo(f"fix:  {suggest} writes the rules that lead from these names to those")
    click.echo(_verdict(answer))


def _problem(problem: Problem, *, reason: bool, fix: bool) -> None:
    moved = f"   (on disk: {problem.source})" if problem.source not in (None, problem.name) else ""
    click.echo(f"  {problem.pattern}   {count(problem.tensors, 'tensor')}{moved}")
    if problem.reason and reason:
        click.echo(f"      {problem.reason}")
    if problem.nearest:
        click.echo(f"      nearest: {problem.nearest}")
    if problem.fix and fix:
        first, *rest = problem.fix.splitlines()
        click.echo(f"      fix:     {first}")
        for line in rest:
            click.echo(f"               {line}")


def _verdict(answer: Answer) -> str:
    outcomes = Counter(each.outcome for each in answer.judged)
    presented = [each for each in answer.judged if each.name is not None and each.source is not None]
    loaded = sum(1 for each in presented if each.outcome is Outcome.LOADS)
    length = sum(each.length for each in presented if each.outcome is Outcome.LOADS)
    beside = [f"{outcomes[kind]:,} {kind}" for kind in (Outcome.UNUSED, Outcome.DROPPED) if outcomes[kind]]
    if answer.loads:
        text = f"loads: {count(loaded, 'tensor')}, {size(length)}, none missing"
    else:
        missing = outcomes[Outcome.MISSING]
        text = f"does NOT load: {loaded:,} of {count(len(presented), 'tensor')} would" + (
            f", {missing:,} missing" if missing else ""
        )
    verdict = f"{', '.join([text, *beside])} (against {answer.against})"
    colour = "green" if answer.loads else "red"
    return click.style(verdict, fg=colour, bold=True) if output.coloured() else verdict


def _as_json(answer: Answer, found: Iterable[Problem]) -> dict[str, Any]:
    return {
        "loads": answer.loads,
        "against": answer.against,
        "outcomes": dict(sorted(Counter(each.outcome.value for each in answer.judged).items())),
        "notes": list(answer.notes),
        "problems": [
            {
                "outcome": problem.outcome.value,
                "source": problem.source,
                "name": problem.name,
                "tensors": problem.tensors,
                "bytes": problem.length,
                "reason": problem.reason,
                "example": problem.example,
                "nearest": problem.nearest,
                "fix": problem.fix,
            }
            for problem in found
        ],
    }
