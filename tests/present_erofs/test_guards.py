"""What a host is refused for, and what the refusal says."""

from __future__ import annotations

import errno
import os
import platform
from typing import TYPE_CHECKING

import pytest

from remapfs.errors import RemapError
from remapfs.present.erofs import Backing, backing, guards
from remapfs.present.erofs.backing import choose, source_name
from remapfs.present.erofs.guards import (
    check_kernel,
    check_user,
    known_bug,
    refusal,
    version_of,
    why_not_from_files,
)
from remapfs.present.erofs.syscalls import MountError
from remapfs.present.mountpoint import Mount

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("release", "version"),
    [
        ("6.18.44-fc-v1045", (6, 18, 44)),
        ("6.12.63+deb13-amd64", (6, 12, 63)),
        ("6.14.0-37-generic", (6, 14, 0)),
        ("7.0-rc1", (7, 0, 0)),
        ("nonsense", (0, 0, 0)),
    ],
)
def test_a_release_is_read_as_a_version(release: str, version: tuple[int, ...]) -> None:
    """Distributions append what they like."""
    assert version_of(release) == version


@pytest.mark.parametrize("release", ["5.15.199", "4.18.0-553.el8", "6.14.0-37-generic", "6.14.11"])
def test_some_kernels_must_not_be_used_at_all(release: str) -> None:
    """Too old for several devices, or with pages that stay locked."""
    assert known_bug(release)


@pytest.mark.parametrize(
    "release", ["5.16.0", "6.8.0-90-generic", "6.12.71", "6.12.117", "6.15.0", "6.18.44", "7.1"]
)
def test_others_can_be_used(release: str) -> None:
    """From files or from loop devices."""
    assert known_bug(release) is None


@pytest.mark.parametrize(
    "release",
    ["5.16.0", "6.8.0-90-generic", "6.12.0-124.el10", "6.12.71", "6.13.7", "6.17.0-8", "6.18.10", "6.19.0"],
)
def test_kernels_that_need_loop_devices_are_known(release: str) -> None:
    """Those that mount no files yet, and those with CVE-2026-23224."""
    assert why_not_from_files(release)


@pytest.mark.parametrize("release", ["6.12.72", "6.12.117", "6.18.11", "6.18.44", "6.19.1", "7.0.0"])
def test_kernels_with_the_fix_are_given_files(release: str) -> None:
    """In the three lines that got it, and in all later ones."""
    assert why_not_from_files(release) is None


def test_a_bad_kernel_is_named_with_its_bug(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """And with what to do."""
    (tmp_path / "filesystems").write_text("nodev\tsysfs\n\terofs\n")
    monkeypatch.setattr(guards, "_FILESYSTEMS", tmp_path / "filesystems")
    monkeypatch.setattr(platform, "release", lambda: "6.14.0-37-generic")
    with pytest.raises(RemapError, match=r"6\.14\.0-37-generic\) can lock pages for ever") as failure:
        check_kernel()
    assert failure.value.hint == "update the kernel, or use --presenter fuse"


def test_a_kernel_without_erofs_is_told_which_module(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """After trying to load it."""
    (tmp_path / "filesystems").write_text("nodev\tsysfs\n\text4\n")
    tried = tmp_path / "tried"
    program = tmp_path / "modprobe"
    program.write_text(f'#!/bin/sh\necho "$@" > {tried}\nexit 1\n')
    program.chmod(0o755)
    monkeypatch.setattr(guards, "_FILESYSTEMS", tmp_path / "filesystems")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RemapError, match="this kernel has no EROFS") as failure:
        check_kernel()
    assert tried.read_text() == "erofs\n"
    assert "modprobe erofs" in failure.value.hint


def test_only_root_can_mount(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others are told of the presenter that they can use."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(RemapError, match="only root can mount") as failure:
        check_user()
    assert "--presenter fuse" in failure.value.hint


def test_a_container_without_the_capability_is_told_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As Docker starts containers by default."""
    (tmp_path / "status").write_text("Name:\tx\nCapEff:\t00000000a80425fb\n")
    monkeypatch.setattr(guards, "_STATUS", tmp_path / "status")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(RemapError, match="lacks the capability SYS_ADMIN") as failure:
        check_user()
    assert "--cap-add SYS_ADMIN" in failure.value.hint


@pytest.mark.parametrize("number", [errno.EPERM, errno.ENODEV, errno.EINVAL])
def test_what_the_kernel_refuses_is_said_with_its_own_words(number: int) -> None:
    """And always with another way."""
    error = refusal(MountError(number, "e erofs: something about the image"))
    assert "something about the image" in error.message
    assert "--presenter fuse" in error.hint


def test_a_kernel_that_gives_zeros_is_given_loop_devices(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever its version says; a line in the log tells why."""
    monkeypatch.setattr(platform, "release", lambda: "6.18.44")
    monkeypatch.setattr(backing, "reads_past_the_end_fail", lambda _: False)
    caplog.set_level("INFO", "remapfs")
    assert choose(1, str(tmp_path), None) == (str(tmp_path), Backing.LOOP_DEVICES)
    assert "it gives zeros" in caplog.text


def test_files_that_are_wished_for_are_not_replaced(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """By whoever calls this from Python: the reason is said instead."""
    monkeypatch.setattr(platform, "release", lambda: "6.17.0-8-generic")
    with pytest.raises(RemapError, match="CVE-2026-23224"):
        choose(1, str(tmp_path), Backing.FILES)


def test_an_old_kernel_is_given_loop_devices(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without a probe, which it could not mount."""
    monkeypatch.setattr(platform, "release", lambda: "6.8.0-90-generic")
    monkeypatch.setattr(backing, "reads_past_the_end_fail", lambda _: pytest.fail("must not be asked"))
    assert choose(1, str(tmp_path), None) == (str(tmp_path), Backing.LOOP_DEVICES)


def test_a_directory_without_room_is_passed_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """$STATE_DIRECTORY comes first; every one that cannot be used is named with its reason."""
    monkeypatch.setattr(backing, "_FOLDERS", (str(tmp_path / "missing"), str(tmp_path)))
    monkeypatch.setenv("STATE_DIRECTORY", "/proc:/other")
    assert choose(1, None, Backing.LOOP_DEVICES) == (str(tmp_path), Backing.LOOP_DEVICES)
    with pytest.raises(RemapError) as failure:
        choose(1 << 60, None, Backing.LOOP_DEVICES)
    assert "/proc: only 0 MB are free" in failure.value.message
    assert "missing: No such file" in failure.value.message
    assert "--image-dir DIR" in failure.value.hint


def test_a_mount_is_named_after_its_checkpoint() -> None:
    """Of a path that is too long for the kernel, the end is kept from a slash on."""
    assert source_name("/data/DeepSeek V4") == "remapfs:/data/DeepSeek V4"
    assert source_name("/") == "remapfs:"
    long = source_name("/" + "/".join(["directory"] * 60))
    assert len(long) <= 255
    assert long.startswith("remapfs:.../directory/")
    assert len(os.fsencode(source_name("/" + "\u00e9" * 200))) <= 255


def test_mounts_of_ours_are_told_from_others() -> None:
    """By type, or by the beginning of the source."""
    assert Mount("0:1", "/mnt", "fuse.remapfs", "/data").is_ours
    ours = Mount("0:1", "/mnt", "erofs", "remapfs:/data")
    assert ours.is_ours
    assert ours.checkpoint == "/data"
    for kind, source in (("erofs", "/dev/loop0"), ("erofs", "/images/remapfs"), ("ext4", "remapfs:/data")):
        assert not Mount("0:1", "/mnt", kind, source).is_ours
