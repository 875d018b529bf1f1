"""One EROFS mount: made by this process, served by the kernel."""

from __future__ import annotations

import errno
import os
import select
import signal
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from remapfs.errors import RemapError
from remapfs.present import mountpoint as mountpoints
from remapfs.present.erofs.backing import UnsuitableError, choose_folder, mount_files, named, unnamed
from remapfs.present.erofs.guards import check_kernel, check_user
from remapfs.present.erofs.identity import uuid_at, uuid_of
from remapfs.present.erofs.image import write_image
from remapfs.present.erofs.layout import lay_out
from remapfs.present.erofs.readback import read_back
from remapfs.present.erofs.sources import OpenSources
from remapfs.present.erofs.syscalls import attach
from remapfs.present.options import LOGGER, MountOptions
from remapfs.present.sources import sources_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from remapfs.plan.model import Plan
    from remapfs.present.erofs.layout import Layout

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_BDI: Final = Path("/sys/class/bdi")
_OWNER_ONLY: Final = 0o500


def mount(
    plan: Plan, mountpoint: str, options: MountOptions | None = None, image_dir: str | None = None
) -> mountpoints.Mount:
    """Mount `plan` at `mountpoint` and leave it to the kernel; no process has to live for it.

    A mount of the same plan that is there already is left as it is. The image is written to a file without a
    name in `image_dir`, by default $STATE_DIRECTORY, /var/tmp or /var/lib, which the kernel frees at the
    unmount. Raises RemapError, with nothing mounted, if the host, the mount point, the plan or a source does
    not allow it.
    """
    options = options or MountOptions()
    check_user()
    if not options.allow_other:
        plan = _private(plan)
    uuid = uuid_of(plan)
    there = mountpoints.mounted_at(mountpoints.resolve(mountpoint))
    if there and there.kind == mountpoints.EROFS and there.is_ours and uuid_at(there.path) == uuid:
        LOGGER.info("%s is already mounted at %s, with the same names", there.checkpoint, there.path)
        return there
    path = mountpoints.check_mountpoint(plan, mountpoint)
    check_kernel()
    layout = lay_out(plan.files, plan.directories)
    with OpenSources(sources_of(plan)) as sources:
        detached = _mount_detached(plan, layout, uuid, sources, options.read_ahead, image_dir)
        try:
            read_back(detached, layout)
            sources.check()
            attach(detached, path)
        finally:
            os.close(detached)
    mounted = mountpoints.mounted_at(path)
    if mounted is None or not mounted.is_ours:
        raise RemapError(f"the mount at {path} was covered or ended by somebody else just now")
    return mounted


def serve(
    plan: Plan,
    mountpoint: str,
    options: MountOptions,
    on_ready: Callable[[], None],
    image_dir: str | None = None,
) -> None:
    """Mount `plan`, wait until it is unmounted or SIGTERM, SIGINT or SIGHUP asks to stop, and unmount.

    Call it in the main thread. `on_ready` is called once, when the mount answers. Raises RemapError before
    anything is mounted if it cannot be. If the process is killed, the mount stays and works.
    """
    with _signals() as asked:
        mounted = mount(plan, mountpoint, options, image_dir)
        try:
            on_ready()
            reason = _wait(mounted, asked)
            LOGGER.info("%s: %s", mountpoint, f"stopping on {reason.name}" if reason else "unmounted")
        finally:
            _unmount(mounted)


def _mount_detached(  # noqa: PLR0913  # the steps of one job
    plan: Plan, layout: Layout, uuid: bytes, sources: OpenSources, read_ahead: int, image_dir: str | None
) -> int:
    """Write the image and mount it, attached nowhere; return the mount's descriptor."""
    folder = choose_folder(layout, image_dir)
    devices = [sources.descriptor(source) for source in layout.devices]
    try:
        with unnamed(folder) as image:
            write_image(image, layout, uuid, sources.read)
            image.flush()
            with named(plan.root, f"/proc/self/fd/{image.fileno()}", folder) as name:
                before = _knobs()
                detached = mount_files(name, devices)
    except UnsuitableError as error:
        raise RemapError(f"{folder}: {error}", "give another directory with --image-dir") from None
    except OSError as error:
        raise RemapError(
            f"cannot write the EROFS image in {folder}: {error.strerror}",
            "give another directory with --image-dir",
        ) from error
    _raise_read_ahead(_knobs() - before, read_ahead)
    return detached


def _private(plan: Plan) -> Plan:
    """Let only the mounting user in: by the mode of the top directory, as there is no server to ask."""
    root, *others = plan.directories
    closed = replace(root.attributes, mode=root.attributes.mode & _OWNER_ONLY, uid=os.geteuid())
    return replace(plan, directories=(replace(root, attributes=closed), *others))


def _knobs() -> set[Path]:
    return {device / "read_ahead_kb" for device in _BDI.glob("erofs-*")}


def _raise_read_ahead(knobs: set[Path], read_ahead: int) -> None:
    """Set the read-ahead of the mount that was just made; the kernel numbers them, and does not say how."""
    if len(knobs) != 1:
        LOGGER.warning("reading will be slower, the read-ahead stays small: its setting was not found")
        return
    knob = knobs.pop()
    try:
        knob.write_text(str(read_ahead >> 10))
    except OSError as error:
        LOGGER.warning("reading will be slower, the read-ahead stays small (%s: %s)", knob, error.strerror)


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
