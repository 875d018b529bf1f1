"""What is checked before a mount, and what unmounting refuses."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from present.plans import plan_of
from remapfs.errors import RemapError
from remapfs.present import mountpoint as mountpoints
from remapfs.present.fuse import mounting
from remapfs.present.mountpoint import Mount, check_mountpoint, parse_mountinfo, resolve, unmount


def test_mountinfo_is_read_with_its_escapes() -> None:
    """Spaces, tabs, newlines and backslashes are octal; the number of optional fields varies."""
    text = (
        b"22 1 254:0 / / rw,relatime shared:1 master:2 - ext4 /dev/vda rw\n"
        b"90 22 0:53 / /mnt/a\\040b\\134c ro,nosuid - fuse.remapfs /models/x\\011y ro,user_id=0\n"
        b"91 22 0:54 / /mnt/none rw - tmpfs  rw\n"
    )
    assert parse_mountinfo(text) == (
        Mount("254:0", "/", "ext4", "/dev/vda"),
        Mount("0:53", "/mnt/a b\\c", "fuse.remapfs", "/models/x\ty"),
        Mount("0:54", "/mnt/none", "tmpfs", ""),
    )


def test_this_machines_mounts_are_read() -> None:
    """There is always a root."""
    assert mountpoints.mounted_at("/") is not None


def test_resolve_follows_symlinks_and_dots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The result is the path that mountinfo would show."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    monkeypatch.chdir(tmp_path)
    for given in ("link", "link/.", "real/../link", str(tmp_path / "link") + "/"):
        assert resolve(given) == str(tmp_path.resolve() / "real")


def test_a_missing_mount_point_is_refused(source_dir: Path, tmp_path: Path) -> None:
    """With the command that makes it."""
    with pytest.raises(RemapError, match="does not exist") as failure:
        check_mountpoint(plan_of(source_dir), str(tmp_path / "missing"))
    assert failure.value.hint == f"mkdir -p {tmp_path / 'missing'}"
    assert failure.value.exit_code == 2


def test_a_file_is_no_mount_point(source_dir: Path, tmp_path: Path) -> None:
    """FUSE could mount on one, and the mount could not be listed."""
    (tmp_path / "file").touch()
    with pytest.raises(RemapError, match="is not a directory"):
        check_mountpoint(plan_of(source_dir), str(tmp_path / "file"))
    with pytest.raises(RemapError, match="Not a directory"):
        check_mountpoint(plan_of(source_dir), str(tmp_path / "file" / "below"))


def test_a_mount_over_its_own_source_is_refused(source_dir: Path) -> None:
    """At the source, or above it: the source could then not be read any more."""
    plan = plan_of(source_dir)
    for path in (source_dir, source_dir / "sub", source_dir.parent, Path("/")):
        with pytest.raises(RemapError, match="would hide its own source"):
            check_mountpoint(plan, str(path))
    (source_dir / "new").mkdir()
    assert check_mountpoint(plan, str(source_dir / "new")) == str(source_dir.resolve() / "new")


def test_a_live_mount_in_the_way_is_named(
    source_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With what it presents, and how to end it."""
    mount = Mount("0:99", str(tmp_path.resolve()), "fuse.remapfs", "/models/other")
    monkeypatch.setattr(mountpoints, "mounts", lambda: (mount,))
    with pytest.raises(RemapError, match="/models/other is already mounted at") as failure:
        check_mountpoint(plan_of(source_dir), str(tmp_path))
    assert f"remapfs umount {tmp_path.resolve()}" in failure.value.hint


def test_unmount_refuses_what_is_not_a_remapfs_mount(tmp_path: Path) -> None:
    """Neither a plain directory nor another file system."""
    with pytest.raises(RemapError, match="nothing is mounted at"):
        unmount(str(tmp_path))
    with pytest.raises(RemapError, match=r"the mount at /proc is proc, not fuse\.remapfs"):
        unmount("/proc")


def test_a_host_without_fuse_is_told_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A module to load, or the options of the container."""
    monkeypatch.setattr(mountpoints, "_DEVICE", str(tmp_path / "fuse"))
    with pytest.raises(RemapError, match="does not exist") as failure:
        mountpoints.open_device()
    assert "modprobe fuse" in failure.value.hint
    assert "--device /dev/fuse" in failure.value.hint


def test_a_device_that_cannot_be_opened_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As in a container that has the node but not the right."""
    monkeypatch.setattr(mountpoints, "_DEVICE", str(tmp_path))
    with pytest.raises(RemapError, match=r"cannot open .*: Is a directory") as failure:
        mountpoints.open_device()
    assert "--device /dev/fuse" in failure.value.hint


def test_a_user_without_fusermount_is_told_which_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the name it has in the distributions."""
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(RemapError, match="fusermount3 is not installed") as failure:
        mountpoints.fusermount()
    assert "fuse3" in failure.value.hint


@pytest.mark.parametrize("text", ["", "#user_allow_other\n", "mount_max = 5\n"])
def test_allow_other_of_a_user_needs_the_hosts_consent(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, source_dir: Path, text: str
) -> None:
    """One sentence, before fusermount3 is asked."""
    conf = tmp_path / "fuse.conf"
    conf.write_text(text)
    monkeypatch.setattr(mounting, "FUSE_CONF", conf)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(mountpoints, "fusermount", lambda: "/bin/false")
    monkeypatch.setattr(mountpoints, "open_device", lambda: os.open("/dev/null", os.O_RDONLY))
    with pytest.raises(RemapError, match="does not say user_allow_other"):
        mounting.mount(str(source_dir), 0o755, str(tmp_path), allow_other=True)
    conf.write_text(text + " user_allow_other\n")
    with pytest.raises(RemapError, match="fusermount3 cannot mount"):
        mounting.mount(str(source_dir), 0o755, str(tmp_path), allow_other=True)
