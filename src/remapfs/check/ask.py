"""Ask one reader whether a plan would load."""

from __future__ import annotations

import posixpath
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from remapfs.check.advice import advise
from remapfs.check.compare import compare
from remapfs.check.config import compare_config
from remapfs.check.preset import advise_preset, names_of, preset_of
from remapfs.check.problems import problems
from remapfs.check.reference import read_reference
from remapfs.check.vllm import LoaderUnavailable, run_loader
from remapfs.checkpoint.scan import CONFIGS
from remapfs.plan.documents import decode
from remapfs.present.reader import open_file

if TYPE_CHECKING:
    from collections.abc import Callable

    from remapfs.check.model import Answer
    from remapfs.check.problems import Problem
    from remapfs.check.reference import Reference
    from remapfs.plan import Plan

VLLM = "vllm"


def check_against(
    plan: Plan,
    reference: str,
    *,
    python: str | None = None,
    trust_remote_code: bool = False,
    progress: Callable[[str, int, int], None] | None = None,
) -> tuple[Answer, list[Problem]]:
    """Compare with a checkpoint directory, a shard, an index or a file of names; or run vLLM's loader dry.

    Returns every tensor's outcome, and what does not load by pattern, with what would put it right.

    `reference` is "vllm" for that: `python` is then the interpreter of vLLM's environment, by default the
    current one, and `progress` is told what is being done, how many tensors are behind it and of how many.
    Where the model class cannot be built without a GPU, the names are compared with those of its preset
    instead, and a note says why; without a preset, LoaderUnavailable is raised.
    """
    if reference != VLLM:
        return _compare(plan, read_reference(reference))
    configs = presented_configs(plan)
    try:
        answer = run_loader(
            plan, python or sys.executable, trust_remote_code=trust_remote_code, progress=progress
        )
    except LoaderUnavailable as error:
        preset = preset_of(configs)
        if preset is None:
            raise
        wanted = names_of(plan, preset)
        note = f"{error.message}; so the names were compared with those that the preset {preset} gives"
        return _compare(plan, replace(wanted, notes=(note,)))
    return answer, problems(answer.judged, advise_preset(plan, answer.judged, configs))


def _compare(plan: Plan, wanted: Reference) -> tuple[Answer, list[Problem]]:
    answer = compare_config(plan, compare(plan, wanted), presented_configs(plan))
    return answer, problems(answer.judged, advise(plan, answer.judged, wanted.tensors))


def presented_configs(plan: Plan) -> dict[str, Any]:
    """Decode the configs at the root of what is presented, in the order in which readers look at them."""
    files = {file.path: file for file in plan.files if not posixpath.dirname(file.path)}
    return {path: decode(path, open_file(files[path]).read()) for path in CONFIGS if path in files}
