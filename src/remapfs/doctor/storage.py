"""What can be told of a checkpoint's place on disk without reading a tensor."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from remapfs.doctor.model import Refused, Storage, Works
from remapfs.errors import RemapError
from remapfs.present import mountpoint as mountpoints
from remapfs.present.erofs.backing import BDI
from remapfs.present.erofs.layout import lay_out
from remapfs.present.reflink.cloning import block_size, probe

if TYPE_CHECKING:
    from collections.abc import Callable

    from remapfs.plan.model import Plan


def storage(make: Callable[[], Plan]) -> Storage | Refused:
    """Make the plan of a checkpoint, and look at the file system below it."""
    try:
        plan = make()
    except RemapError as error:
        return Refused(error.message, error.hint)
    number = os.stat(plan.root).st_dev
    device = f"{os.major(number)}:{os.minor(number)}"
    return Storage(
        path=plan.root,
        kind=_kind(plan.root),
        device=device,
        read_ahead=_read_ahead(device),
        bytes=sum(file.size for file in plan.files),
        shards=len(plan.shards),
        tensors=sum(len(planned.names) for planned in plan.shards),
        erofs=_erofs(plan),
        reflink=_reflink(plan),
        findings=len(plan.findings),
        closed=mountpoints.keeps_users_out(plan),
    )


def _kind(path: str) -> str:
    """Name the type of the file system that `path` lies on, as mountinfo does."""
    within = [mount for mount in mountpoints.mounts() if os.path.commonpath((mount.path, path)) == mount.path]
    # The longest path lies deepest, and of those at one path the last covers the others.
    return max(enumerate(within), key=lambda each: (len(each[1].path), each[0]))[1].kind if within else "?"


def _read_ahead(device: str) -> int | None:
    try:
        return int(Path(BDI, device, "read_ahead_kb").read_text())
    except OSError:
        return None


def _erofs(plan: Plan) -> Works | Refused:
    try:
        lay_out(plan.files, plan.directories)
    except RemapError as error:
        return Refused(error.message, error.hint)
    return Works()


def _reflink(plan: Plan) -> Works | Refused | None:
    """Share a block of each shard with a file without a name beside the checkpoint, which is gone at once."""
    beside = os.path.dirname(plan.root)
    if os.stat(beside).st_dev != os.stat(plan.root).st_dev:
        return None
    try:
        refused = probe(plan.files, beside, block_size(beside))
    except OSError:
        return None
    return Refused(next(iter(refused.values()))) if refused else Works()
