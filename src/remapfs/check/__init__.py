"""Whether a plan would load: against another checkpoint, or against vLLM's own loader."""

from remapfs.check.ask import check_against
from remapfs.check.model import Answer, Judged, Outcome
from remapfs.check.problems import Problem, problems
from remapfs.check.reference import Reference, Wanted, read_reference
from remapfs.check.vllm import LoaderUnavailable

__all__ = [
    "Answer",
    "Judged",
    "LoaderUnavailable",
    "Outcome",
    "Problem",
    "Reference",
    "Wanted",
    "check_against",
    "problems",
    "read_reference",
]
