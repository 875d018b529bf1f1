"""What will be seen: virtual files made of extents."""

from remapfs.plan.build import make_plan
from remapfs.plan.dump import dump
from remapfs.plan.extents import Extent, Literal, Slice, VirtualFile
from remapfs.plan.model import Finding, Kind, Plan
from remapfs.plan.summary import Summary, summarise

__all__ = [
    "Extent",
    "Finding",
    "Kind",
    "Literal",
    "Plan",
    "Slice",
    "Summary",
    "VirtualFile",
    "dump",
    "make_plan",
    "summarise",
]
