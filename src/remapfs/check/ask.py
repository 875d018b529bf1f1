"""Ask one reader whether a plan would load."""

from __future__ import annotations

import posixpath
import sys
from typing import TYPE_CHECKING, Any

from remapfs.check.compare import compare
from remapfs.check.config import compare_config
from remapfs.check.reference import read_reference
from remapfs.check.vllm import run_loader
from remapfs.checkpoint.scan import CONFIGS
from remapfs.plan.documents import decode
from remapfs.present.reader import open_file

if TYPE_CHECKING:
    from collections.abc import Callable

    from remapfs.check.model import Answer
    from remapfs.plan import Plan

VLLM = "vllm"


def check_against(
    plan: Plan,
    reference: str,
    *,
    python: str | None = None,
    trust_remote_code: bool = False,
    progress: Callable[[str, int, int], None] | None = None,
) -> Answer:
    """Compare with a checkpoint directory, a shard, an index or a file of names; or run vLLM's loader dry.

    `reference` is "vllm" for that: `python` is then the interpreter of vLLM's environment, by default the
    current one, and `progress` is told what is being done, how many tensors are behind it and of how many.
    """
    if reference == VLLM:
        interpreter = python or sys.executable
        return run_loader(plan, interpreter, trust_remote_code=trust_remote_code, progress=progress)
    wanted = read_reference(reference)
    return compare_config(plan, compare(plan, wanted), presented_configs(plan))


def presented_configs(plan: Plan) -> dict[str, Any]:
    """Decode the configs at the root of what is presented, in the order in which readers look at them."""
    files = {file.path: file for file in plan.files if not posixpath.dirname(file.path)}
    return {path: decode(path, open_file(files[path]).read()) for path in CONFIGS if path in files}
