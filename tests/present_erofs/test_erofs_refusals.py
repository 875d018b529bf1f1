"""What keeps an EROFS mount from beginning, and what it leaves alone."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pytest

from present_erofs.conftest import random_bytes
from present_erofs.images import ATTRIBUTES, ROOT, image_bytes
from present_erofs.serving import expected, plan_of
from remapfs.errors import RemapError
from remapfs.plan.extents import Literal, Slice, VirtualFile
from remapfs.plan.model import Plan
from remapfs.present.erofs import Backing, ImageOptions, detached, mount, session
from remapfs.present.erofs.backing import unnamed
from remapfs.present.erofs.syscalls import attach, new_mount
from remapfs.present.mountpoint import mounted_at, release, unmount
from remapfs.present.options import MountOptions

if TYPE_CHECKING:
    from pathlib import Path

    from remapfs.checkpoint.source import Source
    from remapfs.present.erofs.sources import OpenSources

FILE = "model.bin"
OPEN = MountOptions(allow_other=True)
SHM = "/dev/shm"  # noqa: S108  # a tmpfs is what is wanted


def test_an_erofs_mount_of_somebody_else_is_left_alone(tmp_path: Path, mountpoint: Path) -> None:
    """It has another source."""
    image = tmp_path / "image"
    image.write_bytes(image_bytes([VirtualFile.of("a", [Literal(b"x")], ATTRIBUTES)], [ROOT]))
    descriptor = new_mount("erofs", [("source", str(image))])
    attach(descriptor, str(mountpoint))
    os.close(descriptor)
    try:
        with pytest.raises(RemapError, match=f"is erofs of {image}, not fuse.remapfs: it is left alone"):
            unmount(str(mountpoint))
        assert (mountpoint / "a").read_bytes() == b"x"
    finally:
        release(str(mountpoint), lazy=False)


def test_a_mount_that_cannot_be_attached_is_said_and_gone(
    source_dir: Path, mountpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where AppArmor forbids it."""

    def forbid(*_: object) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(session, "attach", forbid)
    with pytest.raises(RemapError, match=f"cannot mount at {mountpoint}: Operation not permitted") as failure:
        mount(plan_of(source_dir), str(mountpoint), OPEN)
    assert "--presenter fuse" in failure.value.hint
    assert mounted_at(str(mountpoint)) is None


def test_only_root_can_unmount(source_dir: Path, mountpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As only root could mount; fusermount3 knows nothing of EROFS."""
    mount(plan_of(source_dir), str(mountpoint), OPEN)
    with monkeypatch.context() as patch:
        patch.setattr(os, "geteuid", lambda: 1000)
        with pytest.raises(RemapError, match="only root can unmount") as failure:
            unmount(str(mountpoint))
    assert failure.value.hint == f"sudo remapfs umount {mountpoint}"
    unmount(str(mountpoint))


@pytest.mark.parametrize("change", ["truncated", "rewritten", "replaced", "removed"])
def test_a_source_that_changed_since_it_was_planned_is_refused(
    source_dir: Path, mountpoint: Path, change: str
) -> None:
    """Before anything is mounted, naming the file."""
    plan = plan_of(source_dir)
    path = source_dir / FILE
    if change == "truncated":
        os.truncate(path, 1000)
    elif change == "rewritten":
        path.write_bytes(path.read_bytes())
    elif change == "replaced":
        (source_dir / "new").write_bytes(path.read_bytes())
        (source_dir / "new").replace(path)
    else:
        path.unlink()
    with pytest.raises(RemapError, match=f"{path}: ") as failure:
        mount(plan, str(mountpoint), OPEN)
    assert "plan again" in failure.value.hint
    assert mounted_at(str(mountpoint)) is None


def test_devices_in_another_order_are_noticed(
    source_dir: Path, mountpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel would mount them and show wrong bytes: what is read back differs, and nothing is mounted."""
    (source_dir / "same-size.bin").write_bytes(random_bytes((source_dir / FILE).stat().st_size, 9))
    plan = plan_of(source_dir)

    class Swapped:
        """The open sources, with two devices exchanged."""

        def __init__(self, sources: OpenSources, exchange: dict[Source, Source]) -> None:
            self.sources, self.exchange = sources, exchange

        def __getattr__(self, name: str) -> object:
            return getattr(self.sources, name)

        def descriptor(self, source: Source) -> int:
            return self.sources.descriptor(self.exchange.get(source, source))

    slices = {
        file.path: file.extents[1].source
        for file in plan.files
        if len(file.extents) > 1 and isinstance(file.extents[1], Slice)
    }
    one, two = slices[FILE], slices["same-size.bin"]
    real = detached.mount_over

    def swapped(root: str, layout: object, image: object, sources: object, *rest: object) -> object:
        return real(root, layout, image, Swapped(sources, {one: two, two: one}), *rest)  # type: ignore[arg-type]  # a stand-in

    monkeypatch.setattr(detached, "mount_over", swapped)
    with pytest.raises(RemapError, match=r"EROFS shows other bytes at .* than planned; nothing was mounted"):
        mount(plan, str(mountpoint), OPEN)
    assert mounted_at(str(mountpoint)) is None
    monkeypatch.undo()
    mount(plan, str(mountpoint), OPEN)
    unmount(str(mountpoint))


def test_an_image_on_a_tmpfs_needs_loop_devices(
    source_dir: Path, mountpoint: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The kernel takes no file of a tmpfs for a file system, as in many containers none of an overlay."""
    if not os.path.ismount(SHM):
        pytest.skip("there is no tmpfs at /dev/shm")
    plan = plan_of(source_dir)
    with pytest.raises(RemapError, match=f"{SHM}: its file system cannot back a mount") as failure:
        mount(plan, str(mountpoint), OPEN, ImageOptions(SHM, Backing.FILES))
    assert "--presenter fuse" in failure.value.hint
    assert mounted_at(str(mountpoint)) is None
    caplog.set_level("INFO", "remapfs")
    mount(plan, str(mountpoint), OPEN, ImageOptions(SHM))
    assert (mountpoint / FILE).read_bytes() == expected(source_dir / FILE)
    unmount(str(mountpoint))
    assert "using loop devices" in caplog.text


def test_a_plan_out_of_step_is_refused_before_the_mount(tmp_path: Path, mountpoint: Path) -> None:
    """With the file and the presenter that can."""
    path = tmp_path / "big"
    path.touch()
    os.truncate(path, 64 << 20)
    plan = plan_of(tmp_path)
    shifted = VirtualFile.of("big", [Literal(b"x"), *plan.files[0].extents], ATTRIBUTES)
    with pytest.raises(RemapError, match="cannot show big: its byte") as failure:
        mount(Plan(plan.root, (shifted,), plan.directories, ()), str(mountpoint), OPEN)
    assert "--presenter fuse" in failure.value.hint
    assert mounted_at(str(mountpoint)) is None


def test_a_file_system_without_nameless_files_is_given_a_name_that_goes_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on NFS."""
    real = os.open

    def without(path: str, flags: int, *rest: int) -> int:
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
        return real(path, flags, *rest)

    monkeypatch.setattr(os, "open", without)
    with unnamed(str(tmp_path)) as stream:
        stream.write(b"x")
        assert list(tmp_path.iterdir()) == []
