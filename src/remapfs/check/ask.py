"""Ask one reader whether a plan would load."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING, Any

from remapfs.check.compare import compare
from remapfs.check.config import compare_config
from remapfs.check.reference import read_reference
from remapfs.checkpoint.scan import CONFIGS
from remapfs.plan.documents import decode
from remapfs.present.reader import open_file

if TYPE_CHECKING:
    from remapfs.check.model import Answer
    from remapfs.plan import Plan


def check_against(plan: Plan, reference: str) -> Answer:
    """Compare with a checkpoint directory, a shard, an index or a file of names."""
    wanted = read_reference(reference)
    return compare_config(plan, compare(plan, wanted), presented_configs(plan))


def presented_configs(plan: Plan) -> dict[str, Any]:
    """Decode the configs at the root of what is presented, in the order in which readers look at them."""
    files = {file.path: file for file in plan.files if not posixpath.dirname(file.path)}
    return {path: decode(path, open_file(files[path]).read()) for path in CONFIGS if path in files}
