"""An image that is written and mounted, but attached nowhere yet."""

from __future__ import annotations

import os
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from remapfs.errors import RemapError
from remapfs.present.erofs.backing import (
    BDI,
    Backing,
    UnsuitableError,
    alone,
    choose,
    mount_image,
    named,
    path_of,
    unnamed,
)
from remapfs.present.erofs.image import write_image
from remapfs.present.erofs.loop import loop_device
from remapfs.present.options import LOGGER

if TYPE_CHECKING:
    from remapfs.present.erofs.layout import Layout
    from remapfs.present.erofs.sources import OpenSources


@dataclass(frozen=True, slots=True)
class ImageOptions:
    """Where the image lies and what the kernel is given; None for what suits this host.

    By default the image is a file without a name in $STATE_DIRECTORY, /var/tmp or /var/lib, which the kernel
    frees at the unmount.
    """

    folder: str | None = None
    backing: Backing | None = None


@dataclass(frozen=True, slots=True)
class DetachedMount:
    """A mount that ends with its `descriptor`, unless it is attached; `knob` sets its read-ahead, in KiB."""

    descriptor: int
    knob: Path | None

    def raise_read_ahead(self, size: int) -> None:
        """Set the read-ahead to `size` bytes; a warning says if that is not possible."""
        try:
            if self.knob is None:
                raise FileNotFoundError(None, "not found")
            self.knob.write_text(str(size >> 10))
        except OSError as error:
            where = self.knob or BDI
            LOGGER.warning(
                "reading will be slower, the read-ahead stays small (%s: %s)", where, error.strerror
            )


def detached_mount(
    root: str, layout: Layout, uuid: bytes, sources: OpenSources, options: ImageOptions
) -> DetachedMount:
    """Write the image of a layout and mount it over its open sources, named after the checkpoint at `root`.

    Raises RemapError if no directory can hold the image, or if the kernel refuses it.
    """
    folder, backing = choose(layout.size, options.folder, options.backing)
    try:
        with unnamed(folder) as image:
            write_image(image, layout, uuid, sources.read)
            image.flush()
            return mount_over(root, layout, image, sources, folder, backing)
    except UnsuitableError as error:
        raise RemapError(f"{folder}: {error}", "give another directory with --image-dir") from None
    except OSError as error:
        raise RemapError(
            f"cannot write the EROFS image in {folder}: {error.strerror}",
            "give another directory with --image-dir",
        ) from error


def mount_over(  # noqa: PLR0913  # what there is to mount
    root: str, layout: Layout, image: BinaryIO, sources: OpenSources, folder: str, backing: Backing
) -> DetachedMount:
    """Mount a written image over its sources, attached nowhere; raises RemapError or UnsuitableError."""
    files = [(sources.descriptor(source), source.size, source.path) for source in layout.devices]
    with ExitStack() as stack:
        if backing is Backing.FILES:
            target, *devices = (
                path_of(descriptor) for descriptor in (image.fileno(), *(f[0] for f in files))
            )
        else:
            target, *devices = (
                stack.enter_context(loop_device(*file))
                for file in ((image.fileno(), layout.size, "remapfs"), *files)
            )
        name = stack.enter_context(named(root, target, folder))
        stack.enter_context(alone())
        before = _knobs()
        descriptor = mount_image(name, devices, backing)
        return DetachedMount(descriptor, _knob(descriptor, _knobs() - before, backing))


def _knobs() -> set[Path]:
    return {device / "read_ahead_kb" for device in Path(BDI).glob("erofs-*")}


def _knob(descriptor: int, new: set[Path], backing: Backing) -> Path | None:
    """Find the read-ahead of a mount; the kernel numbers those from files, and does not say how."""
    if backing is Backing.FILES:
        return new.pop() if len(new) == 1 else None
    device = os.fstat(descriptor).st_dev
    return Path(BDI) / f"{os.major(device)}:{os.minor(device)}" / "read_ahead_kb"
