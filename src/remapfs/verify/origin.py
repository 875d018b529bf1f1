"""Which checkpoint a mount or an export shows, as it says itself."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from remapfs.errors import RemapError
from remapfs.present.mountpoint import mounted_at, resolve
from remapfs.present.reflink.state import State, digest_of_plan

if TYPE_CHECKING:
    from remapfs.plan.model import Plan


@dataclass(frozen=True, slots=True)
class MountOrigin:
    """The checkpoint that a mount shows; it does not say by which rules."""

    source: str


@dataclass(frozen=True, slots=True)
class ExportOrigin:
    """The checkpoint that was exported, the command-line options, and the digest of the plan."""

    source: str
    arguments: tuple[str, ...]
    digest: str


def origin_of(directory: str) -> MountOrigin | ExportOrigin:
    """Say what `directory` shows; raises RemapError if that is not known.

    Asks a mount of remapfs for nothing, so it returns though the mount is dead.
    """
    path = resolve(directory)
    mount = mounted_at(path)
    if mount is not None and mount.is_ours:
        # A very long path is not whole there.
        if not os.path.isdir(mount.checkpoint):
            raise RemapError(
                f"the mount at {path} is of {mount.checkpoint}, which is not found here",
                "give the directory of the checkpoint too",
            )
        return MountOrigin(mount.checkpoint)
    state = State.read(path)
    if state is None:
        raise RemapError(
            f"{path} is neither a mount of remapfs nor an export: its source is not known",
            "give the directory of the checkpoint too",
        )
    return ExportOrigin(state.source, state.asked, state.plan)


def check_unchanged(origin: ExportOrigin, plan: Plan, directory: str) -> None:
    """Raise RemapError if the plan made now is not the one that was exported."""
    if digest_of_plan(plan) != origin.digest:
        raise RemapError(
            f"{origin.source}, or the rules, changed since {directory} was exported",
            "to compare it all the same, give the directory of the checkpoint and the options",
        )
