"""One EROFS mount: made by this process, served by the kernel."""

from __future__ import annotations

import errno
import os
import platform
import select
import signal
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from remapfs.errors import RemapError, RuntimeFailure
from remapfs.present import mountpoint as mountpoints
from remapfs.present.erofs.backing import choose
from remapfs.present.erofs.detached import ImageOptions, detached_mount
from remapfs.present.erofs.guards import (
    FUSE,
    check_kernel,
    check_user,
    has_erofs,
    known_bug,
    why_not_from_files,
)
from remapfs.present.erofs.identity import uuid_at, uuid_of
from remapfs.present.erofs.layout import lay_out
from remapfs.present.erofs.readback import read_back
from remapfs.present.erofs.sources import OpenSources
from remapfs.present.erofs.syscalls import attach
from remapfs.present.options import LOGGER, MountOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from remapfs.plan.model import Plan

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_OWNER_ONLY: Final = 0o500


def mount(
    plan: Plan, mountpoint: str, options: MountOptions | None = None, image: ImageOptions | None = None
) -> mountpoints.Mount:
    """Mount `plan` at `mountpoint` and leave it to the kernel; no process has to live for it.

    A mount of the same plan that is there already is left as it is. Raises RemapError, with nothing mounted,
    if the host, the mount point, the plan or a source does not allow it.
    """
    options = options or MountOptions()
    check_user()
    if not options.allow_other:
        plan = _private(plan)
    uuid = uuid_of(plan)
    there = mountpoints.mounted_at(mountpoints.resolve(mountpoint))
    if there and there.kind == mountpoints.EROFS and there.is_ours:
        if uuid_at(there.path) == uuid:
            LOGGER.info("%s is already mounted at %s, with the same names", there.checkpoint, there.path)
            return there
        raise RemapError(
            f"{there.checkpoint} is already mounted at {there.path}, with other names or before it changed",
            f"unmount it first (remapfs umount {there.path}), or choose another mount point",
        )
    path = mountpoints.check_mountpoint(plan, mountpoint)
    check_kernel()
    layout = lay_out(plan.files, plan.directories)
    with OpenSources(layout.devices) as sources:
        detached = detached_mount(plan.root, layout, uuid, sources, image or ImageOptions())
        try:
            read_back(detached.descriptor, layout)
            detached.raise_read_ahead(options.read_ahead)
            sources.check()
            attach(detached.descriptor, path)
        except OSError as error:
            raise RemapError(f"cannot mount at {path}: {error.strerror}", FUSE) from error
        finally:
            os.close(detached.descriptor)
    mounted = mountpoints.mounted_at(path)
    if mounted is None or not mounted.is_ours:
        raise RuntimeFailure(f"somebody else ended the mount at {path}, or mounted over it, just now")
    return mounted


def check(plan: Plan, image: ImageOptions | None = None) -> None:
    """Check that `plan` can be mounted on this host, as far as that can be told without mounting it.

    Raises RemapError that says why not.
    """
    image = image or ImageOptions()
    check_user()
    check_kernel()
    choose(lay_out(plan.files, plan.directories).size, image.folder, image.backing)


def looks_possible(plan: Plan) -> bool:
    """Say whether `check` would probably pass, without trying anything on the host."""
    if os.geteuid() != 0 or not has_erofs() or known_bug(platform.release()):
        return False
    if why_not_from_files(platform.release()):
        return False
    try:
        lay_out(plan.files, plan.directories)
    except RemapError:
        return False
    return True


def serve(
    plan: Plan,
    mountpoint: str,
    options: MountOptions,
    on_ready: Callable[[], None],
    image: ImageOptions | None = None,
) -> None:
    """Mount `plan`, wait until it is unmounted or SIGTERM, SIGINT or SIGHUP asks to stop, and unmount.

    Call it in the main thread. `on_ready` is called once, when the mount answers. Raises RemapError before
    anything is mounted if it cannot be. If the process is killed, the mount stays and works.
    """
    with _signals() as asked:
        mounted = mount(plan, mountpoint, options, image)
        try:
            on_ready()
            reason = _wait(mounted, asked)
            LOGGER.info("%s: %s", mountpoint, f"stopping on {reason.name}" if reason else "unmounted")
        finally:
            _unmount(mounted)


def _private(plan: Plan) -> Plan:
    """Let only the mounting user in: by the mode of the top directory, as there is no server to ask."""
    root, *others = plan.directories
    closed = replace(root.attributes, mode=root.attributes.mode & _OWNER_ONLY, uid=os.geteuid())
    return replace(plan, directories=(replace(root, attributes=closed), *others))


@contextmanager
def _signals() -> Iterator[int]:
    """Give a descriptor that can be read once a signal asks to stop."""
    reading, writing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    handlers = {number: signal.signal(number, lambda *_: None) for number in _SIGNALS}
    previous = signal.set_wakeup_fd(writing)
    try:
        yield reading
    finally:
        signal.set_wakeup_fd(previous)
        for number, handler in handlers.items():
            signal.signal(number, handler)
        os.close(reading)
        os.close(writing)


def _wait(mounted: mountpoints.Mount, asked: int) -> signal.Signals | None:
    """Wait for a signal, or for None: the mount has ended."""
    with open("/proc/self/mountinfo", "rb") as table:
        poll = select.poll()
        poll.register(table, select.POLLPRI)  # the kernel reports every change of the mount table
        poll.register(asked, select.POLLIN)
        while mounted in mountpoints.parse_mountinfo(table.read()):
            table.seek(0)
            poll.poll()
            signals = _pending(asked)
            if signals:
                return signals[0]
    return None


def _pending(asked: int) -> list[signal.Signals]:
    try:
        return [signal.Signals(number) for number in os.read(asked, 64) if number in _SIGNALS]
    except BlockingIOError:
        return []


def _unmount(mounted: mountpoints.Mount) -> None:
    if mounted not in mountpoints.mounts():
        return
    if mountpoints.mounted_at(mounted.path) != mounted:
        LOGGER.error("cannot unmount %s: something else is mounted over it", mounted.path)
        return
    try:
        mountpoints.release(mounted.path, lazy=False)
    except OSError as error:
        if error.errno != errno.EBUSY:
            LOGGER.error("cannot unmount %s: %s", mounted.path, error.strerror)
            return
        LOGGER.warning("%s is still in use: detaching it; what is open stays readable", mounted.path)
        mountpoints.release(mounted.path, lazy=True)
