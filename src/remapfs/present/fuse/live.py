"""One mount: the descriptor, the open sources and the answers, but not who serves it."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import TYPE_CHECKING

from remapfs.present import mountpoint as mountpoints
from remapfs.present.fuse.mounting import mount
from remapfs.present.fuse.server import Server
from remapfs.present.fuse.threads import answer_init, board
from remapfs.present.fuse.wire import whole_reads
from remapfs.present.options import LOGGER
from remapfs.present.sources import SourcePool, sources_of

if TYPE_CHECKING:
    from remapfs.plan.model import Plan
    from remapfs.present.options import MountOptions


class LiveMount:
    """A plan that is mounted at a path.

    From its making on, requests wait in the kernel until somebody reads them from `device`.
    """

    def __init__(self, plan: Plan, path: str, options: MountOptions) -> None:
        self.path = path
        self.options = options
        self.device = -1
        self._plan = plan
        self.board = board(options.threads)
        self._pool = SourcePool(sources_of(plan))
        self.failures = self._pool.failures
        self.failures.tell = self.board.tell_failure
        self._mount: mountpoints.Mount | None = None
        self.server = Server(plan, self._pool, options.read_ahead)

    @classmethod
    def make(cls, plan: Plan, mountpoint: str, options: MountOptions) -> LiveMount:
        """Mount `plan`.

        Raises RemapError, with nothing mounted, if this host, the mount point or a source does not allow it.
        """
        live = cls(plan, mountpoints.check_mountpoint(plan, mountpoint), options)
        try:
            live.mount()
        except BaseException:
            live.unmount()
            live.close()
            raise
        return live

    @classmethod
    def continued(
        cls, plan: Plan, path: str, options: MountOptions, device: int, mount: mountpoints.Mount
    ) -> LiveMount:
        """Continue `mount`, which shows `plan` and is served through `device`, where another process stopped.

        Raises RemapError if a source is not what it was.
        """
        live = cls(plan, path, options)
        live.device, live._mount = device, mount
        return live

    @property
    def identity(self) -> str:
        """The mount's device as `major:minor`, empty if it was not seen in mountinfo."""
        return self._mount.device if self._mount else ""

    def mount(self) -> None:
        """Make the mount and agree with the kernel on how to talk; nobody may serve yet."""
        mode = self._plan.directories[0].attributes.mode
        self.device = mount(self._plan.root, mode, self.path, allow_other=self.options.allow_other)
        self._mount = mountpoints.mounted_at(self.path)
        # The kernel sends INIT first and nothing else until it is answered. It resets the read-ahead.
        answer_init(self.device, self.server)
        if self._mount is not None:
            raise_read_ahead(self._mount, self.options.read_ahead)

    def unmount(self) -> None:
        """End the mount, whether or not files are still open. It may be called twice."""
        mount = self._mount
        if mount is None or mount not in mountpoints.mounts():
            return
        if mountpoints.mounted_at(self.path) != mount:
            LOGGER.error("cannot unmount %s: something else is mounted over it", self.path)
            return
        try:
            mountpoints.release(self.path, lazy=False)
        except OSError as error:
            if error.errno != errno.EBUSY:
                LOGGER.error("cannot unmount %s: %s", self.path, error.strerror)
                return
            LOGGER.warning("%s is still in use: detaching it, its readers will fail", self.path)
            mountpoints.release(self.path, lazy=True)
        self._mount = None

    def let_go(self) -> None:
        """Close the descriptor: if nobody else holds it, readers get ENOTCONN from now on."""
        if self.device >= 0:
            os.close(self.device)
            self.device = -1

    def close(self) -> None:
        """Let go of the descriptor and of the sources. It may be called twice."""
        self.let_go()
        self._pool.close()


def raise_read_ahead(mount: mountpoints.Mount, read_ahead: int) -> None:
    """Set the mount's read-ahead in bytes, which INIT can only lower, through its backing device info."""
    knob = Path(f"/sys/class/bdi/{mount.device}/read_ahead_kb")
    wanted = whole_reads(read_ahead) >> 10
    try:
        knob.write_text(str(wanted))
    except OSError as error:
        LOGGER.warning(
            "reading will be slower, the read-ahead stays small (%s: %s); as root: echo %d > %s",
            knob,
            error.strerror,
            wanted,
            knob,
        )
