"""`remapfs check`."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import click

from remapfs.check import Outcome, check_against
from remapfs.cli import output
from remapfs.cli.planning import Asked, asks_for_a_plan
from remapfs.words import count

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
_FIXES = 6
_EPILOG = """
\b
Examples:
  remapfs check /data/DeepSeek-V4-NVFP4 --preset deepseek-v4 --against vllm
  remapfs check /data/DeepSeek-V4-NVFP4 --preset deepseek-v4 --against /data/DeepSeek-V4
  remapfs check /data/My-Model --rules my-rules.toml --against model.safetensors.index.json --json
"""


@click.command(epilog=_EPILOG)
@click.argument("source")
@asks_for_a_plan
@click.option(
    "--against",
    "reference",
    metavar="REF",
    required=True,
    help="What wants the tensors: a checkpoint directory, a shard, an index JSON, a text file of names; "
    "or vllm, for a dry run of its loader.",
)
@click.option(
    "--python",
    metavar="PATH",
    help="With --against vllm: the Python of the environment that vLLM is installed in.  [default: this one]",
)
@click.option(
    "--trust-remote-code", is_flag=True, help="With --against vllm: let it run the checkpoint's own code."
)
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
def check(  # noqa: PLR0913  # one argument an option
    source: str,
    *,
    asked: Asked,
    reference: str,
    python: str | None,
    trust_remote_code: bool,
    as_json: bool,
) -> None:
    """Say whether SOURCE, remapped, has exactly the tensors that REF wants.

    Nothing is mounted, no weight is read. Exit code 0 if it will load, 1 if not.
    """
    made = asked.plan(source)
    with output.progress() as progress:
        answer, found = check_against(
            made, reference, python=python, trust_remote_code=trust_remote_code, progress=progress
        )
    if as_json:
        click.echo(json.dumps(_as_json(answer, found), indent=2, ensure_ascii=False))
    else:
        _show(answer, found, f"remapfs suggest {source} {reference}")
    if not answer.loads:
        raise click.exceptions.Exit(1)


def _show(answer: Answer, found: list[Problem], suggest: str) -> None:
    # Rules for many patterns are fewer when they are found together.
    fixes = len({problem.fix for problem in found if problem.fix})
    for outcome in dict.fromkeys(problem.outcome for problem in found):
        own = [problem for problem in found if problem.outcome is outcome]
        title = f"{outcome}: {count(sum(problem.tensors for problem in own), 'tensor')}"
        click.echo(click.style(title, fg=_COLOURS[outcome], bold=True) if output.coloured() else title)
        for problem in own:
            _problem(problem, fix=fixes <= _FIXES)
    for note in answer.notes:
        click.echo(f"note: {note}")
    if fixes > _FIXES:
        click.echo(f"hint: {suggest} writes the rules that lead from these names to those")
    click.echo(_verdict(answer))


def _problem(problem: Problem, *, fix: bool) -> None:
    moved = f"   (on disk: {problem.source})" if problem.source not in (None, problem.name) else ""
    click.echo(f"  {problem.pattern}   {count(problem.tensors, 'tensor')}{moved}")
    if problem.reason:
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
        text = f"loads: {count(loaded, 'tensor')}, {output.size(length)}, none missing"
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
