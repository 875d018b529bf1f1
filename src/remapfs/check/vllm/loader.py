"""Ask vLLM's loader what it would do with each tensor."""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING

from remapfs.check.vllm.answer import to_answer
from remapfs.check.vllm.job import write_job
from remapfs.check.vllm.process import run
from remapfs.errors import RemapError

if TYPE_CHECKING:
    from collections.abc import Callable

    from remapfs.check.model import Answer
    from remapfs.plan import Plan


class LoaderUnavailable(RemapError):  # noqa: N818  # it says what the caller has to know
    """vLLM is there and takes the configuration, but its loader cannot be run dry: `message` says why.

    A comparison of names is then the next best thing.
    """


def run_loader(
    plan: Plan,
    python: str,
    *,
    trust_remote_code: bool = False,
    progress: Callable[[str, int, int], None] | None = None,
) -> Answer:
    """Run the loader of the vLLM that belongs to the interpreter `python` dry, on what a plan presents.

    The model class that config.json names is built without storage, and gets all tensors as names, dtypes and
    shapes, in the order in which vLLM would read them. `trust_remote_code` lets vLLM run the checkpoint's own
    Python files. `progress` is told what is being done, how many tensors are behind it and of how many.

    Raises RemapError for what the user can put right, LoaderUnavailable where the model class cannot be built
    or run dry, and RuntimeFailure where the process dies.
    """
    with tempfile.TemporaryDirectory(prefix="remapfs-check-") as folder:
        tensors = write_job(plan, folder, trust_remote_code=trust_remote_code)
        report = run(python, folder, progress or (lambda *_: None))
    if report.impossible:
        raise LoaderUnavailable(
            f"{report.against} cannot be run dry here: {report.impossible}",
            "compare with a checkpoint, an index or a list of names that loads: --against PATH",
        )
    return to_answer(plan, tensors, report)
