"""What every mounting presenter is asked for and how it is called."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from remapfs.plan.model import Plan

MIB: Final = 1 << 20
FILESYSTEM_TYPE: Final = "fuse.remapfs"
LOGGER: Final = logging.getLogger("remapfs")


@dataclass(frozen=True, slots=True)
class MountOptions:
    """What a user may choose about a mount.

    `allow_other` lets other users in, as the files' modes allow; `threads` is the number of serving
    threads, None for the presenter's own choice; `read_ahead` is in bytes; `metrics` is the loopback address
    on which Prometheus may ask, as `127.0.0.1:9464`.
    """

    allow_other: bool = False
    threads: int | None = None
    read_ahead: int = 4 * MIB
    metrics: str | None = None


class Presenter(Protocol):
    """A function that mounts a plan and serves it until the mount ends."""

    def __call__(
        self, plan: Plan, mountpoint: str, options: MountOptions, on_ready: Callable[[], None]
    ) -> None:
        """Mount `plan`, call `on_ready` once the mount answers, and return when nothing is mounted any more.

        It runs in the main thread and ends on an unmount from outside, SIGTERM, SIGINT or SIGHUP.
        Raises RemapError before mounting when it cannot.
        """
