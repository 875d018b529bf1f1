"""A mount that is served by threads of this process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Self

from remapfs.present.fuse.live import LiveMount
from remapfs.present.fuse.threads import ServingThreads
from remapfs.present.options import MountOptions

if TYPE_CHECKING:
    from types import TracebackType

    from remapfs.plan.model import Plan

_JOIN_SECONDS: Final = 2.0


class Session:
    """A plan mounted and served by this process; a context manager that leaves nothing mounted."""

    def __init__(self, plan: Plan, mountpoint: str, options: MountOptions | None = None) -> None:
        self._plan = plan
        self._options = options or MountOptions()
        self._mountpoint = mountpoint
        self._live: LiveMount | None = None
        self._threads: ServingThreads | None = None

    def start(self) -> None:
        """Mount and serve; when it returns, the mount answers.

        Raises RemapError, with nothing mounted, if this host, the mount point or a source does not allow it.
        """
        live = LiveMount.make(self._plan, self._mountpoint, self._options)
        self._live = live
        try:
            self._threads = ServingThreads(live.device, live.server, live.board, on_end=lambda _: None)
            self._threads.start()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Unmount, whether or not files are still open, and release everything. It may be called twice."""
        if self._live is None:
            return
        self._live.unmount()
        # A mount that is still used, here after a lazy unmount by a user or in another mount namespace,
        # keeps its threads, and they the descriptors. Both end with the process.
        if self._threads is None or self._threads.join(_JOIN_SECONDS):
            self._live.close()
            self._live = self._threads = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
