"""Present a safetensors checkpoint under the names its loader wants, without copying a tensor.

    from remapfs import load_preset, make_plan, open_file, read_checkpoint

    rules = load_preset("deepseek-v4")
    plan = make_plan(read_checkpoint("/data/DeepSeek-V4-NVFP4", documents=rules.documents), rules)
    header = open_file(plan.files[0]).read(8)

Mounting needs a presenter: `remapfs.present.fuse` or `remapfs.present.fusepy`.
"""

from remapfs.checkpoint import IndexMode, read_checkpoint
from remapfs.errors import RemapError, RuntimeFailure
from remapfs.plan import Plan, make_plan
from remapfs.present.reader import open_file
from remapfs.rules import Rules, load_preset, load_rules, presets

__version__ = "0.1.0"

__all__ = [
    "IndexMode",
    "Plan",
    "RemapError",
    "Rules",
    "RuntimeFailure",
    "load_preset",
    "load_rules",
    "make_plan",
    "open_file",
    "presets",
    "read_checkpoint",
]
