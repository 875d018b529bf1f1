"""How an EROFS mount begins and ends, and what keeps it from beginning."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mounting import remapfs
from present.test_mount_reads import uncache
from present_erofs import serving as program
from present_erofs.conftest import _PATHS, random_bytes
from present_erofs.serving import expected, plan_of
from remapfs.errors import RemapError, RuntimeFailure
from remapfs.present.erofs import Backing, ImageOptions, mount
from remapfs.present.erofs.identity import uuid_at, uuid_of
from remapfs.present.mountpoint import check_mountpoint, mounted_at, unmount
from remapfs.present.options import MountOptions

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from present_erofs.conftest import Served

FILE = "model.bin"
OPEN = MountOptions(allow_other=True)
SHM = "/dev/shm"  # noqa: S108  # a tmpfs is what is wanted


def loop_devices_of(path: Path) -> list[str]:
    """List the files that loop devices stand for, below a directory."""
    run = subprocess.run(["losetup", "-nO", "BACK-FILE"], capture_output=True, text=True, check=True)
    return [line for line in run.stdout.splitlines() if line.startswith(str(path))]


def settled(path: Path) -> bool:
    """Wait until no loop device stands for a file below `path`: the kernel clears them a moment later."""
    end = time.monotonic() + 10
    while loop_devices_of(path) and time.monotonic() < end:
        time.sleep(0.05)
    return not loop_devices_of(path)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_the_mount_cleanly(served: Served, number: signal.Signals) -> None:
    """Exit code 0, nothing mounted, no loop device left."""
    assert (served.path / FILE).stat()
    served.process.send_signal(number)
    code, log = served.end()
    assert code == 0
    assert f"stopping on {number.name}" in log
    assert mounted_at(str(served.path)) is None
    assert settled(served.source)


def test_a_signal_ends_a_mount_that_is_in_use(served: Served) -> None:
    """It is detached with one line in the log; what is open can be read to its end."""
    with (served.path / FILE).open("rb", buffering=0) as stream:
        served.process.send_signal(signal.SIGTERM)
        code, log = served.end()
        assert code == 0
        assert log.count("still in use") == 1
        assert mounted_at(str(served.path)) is None
        assert stream.read() == expected(served.source / FILE)
    assert settled(served.source)


def test_an_unmount_from_outside_ends_the_process(served: Served) -> None:
    """Exit code 0: that is how an administrator ends it."""
    subprocess.run(["umount", served.path], check=True)
    code, log = served.end()
    assert code == 0
    assert "unmounted" in log


def test_unmount_ends_a_mount_and_refuses_one_in_use(served: Served) -> None:
    """As the command line does it."""
    with (served.path / FILE).open("rb"), pytest.raises(RuntimeFailure, match="is in use"):
        unmount(str(served.path))
    unmount(str(served.path))
    assert served.end()[0] == 0
    assert mounted_at(str(served.path)) is None


def test_a_killed_process_leaves_a_mount_that_works(served: Served) -> None:
    """Nothing depends on the process."""
    served.process.kill()
    served.process.wait()
    assert (served.path / FILE).read_bytes() == expected(served.source / FILE)
    unmount(str(served.path))
    assert mounted_at(str(served.path)) is None


def test_a_signal_at_any_moment_leaves_nothing_mounted(source_dir: Path, mountpoint: Path) -> None:
    """From before the mount until after it is ready."""
    for step in range(12):
        process = subprocess.Popen(
            [sys.executable, program.__file__, source_dir, mountpoint, "files", "all"],
            env={**os.environ, "PYTHONPATH": _PATHS},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + 10
        while step % 3 and mounted_at(str(mountpoint)) is None and time.monotonic() < deadline:
            time.sleep(0.0005)
        time.sleep(0.02 * step if step % 3 == 0 else 0.001 * step)
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=20)
        assert mounted_at(str(mountpoint)) is None


@pytest.mark.parametrize("backing", list(Backing))
def test_mount_leaves_no_process_and_no_file(source_dir: Path, mountpoint: Path, backing: Backing) -> None:
    """The image has no name, the working directory is as before, and the next mount finds this one."""
    folder = source_dir.parent / "images"
    folder.mkdir()
    before = Path.cwd()
    image = ImageOptions(str(folder), backing)
    first = mount(plan_of(source_dir), str(mountpoint), OPEN, image)
    try:
        assert list(folder.iterdir()) == []
        assert Path.cwd() == before
        assert (mountpoint / FILE).read_bytes() == expected(source_dir / FILE)
        assert mount(plan_of(source_dir), str(mountpoint), OPEN, image) == first
        knob = Path(f"/sys/class/bdi/{first.device}/read_ahead_kb")
        if backing is Backing.LOOP_DEVICES:
            assert knob.read_text() == "4096\n"
    finally:
        unmount(str(mountpoint))
    assert settled(source_dir)


def test_the_read_ahead_is_that_of_the_options(source_dir: Path, mountpoint: Path) -> None:
    """The kernel's own would be 128 KiB."""
    mount(plan_of(source_dir), str(mountpoint), MountOptions(allow_other=True, read_ahead=3 << 20))
    found = [knob.read_text() for knob in Path("/sys/class/bdi").glob("erofs-*/read_ahead_kb")]
    unmount(str(mountpoint))
    assert "3072\n" in found


def test_kernels_that_do_not_tell_the_uuid_are_asked_through_the_loop_device(
    source_dir: Path, mountpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before Linux 6.9, which needs loop devices in any case."""

    def refuse(*_: object) -> bytes:
        raise OSError(errno.ENOTTY, "Inappropriate ioctl for device")

    plan = plan_of(source_dir)
    for backing, uuid in ((Backing.LOOP_DEVICES, uuid_of(plan)), (Backing.FILES, None)):
        mount(plan, str(mountpoint), OPEN, ImageOptions(backing=backing))
        assert uuid_at(str(mountpoint)) == uuid_of(plan)
        with monkeypatch.context() as patch:
            patch.setattr(fcntl, "ioctl", refuse)
            assert uuid_at(str(mountpoint)) == uuid
        unmount(str(mountpoint))


def test_two_mounts_at_the_same_time_both_get_their_read_ahead(
    source_dir: Path, serving: Callable[..., AbstractContextManager[Served]]
) -> None:
    """As two units of one host start."""
    with ThreadPoolExecutor(4) as pool, ExitStack() as stack:
        for served in pool.map(lambda _: stack.enter_context(serving(source_dir)), range(4)):
            served.process.send_signal(signal.SIGTERM)
            assert "read-ahead" not in served.end()[1]


def test_killed_readers_leave_no_wrong_page(served: Served) -> None:
    """The cache is shared: what a reader that is killed had asked for must not stay as zeros."""
    path, content = served.path / FILE, expected(served.source / FILE)
    code = "import sys\nwhile True: open(sys.argv[1], 'rb', buffering=0).read()"
    for round_ in range(10):
        uncache(path)
        reader = subprocess.Popen([sys.executable, "-c", code, path])
        time.sleep(0.05 + 0.003 * round_)
        uncache(path)
        reader.kill()
        reader.wait()
        assert path.read_bytes() == content


def test_another_plan_at_the_same_place_is_refused(served: Served) -> None:
    """Another source, the same one after a change, or the same for other users; and what is there stays."""
    other = served.source.parent / "other"
    other.mkdir()
    for plan, options in (
        (plan_of(other), OPEN),
        (plan_of(served.source), MountOptions()),
    ):
        with pytest.raises(RemapError, match=f"{served.source} is already mounted at") as failure:
            mount(plan, str(served.path), options)
        assert f"remapfs umount {served.path}" in failure.value.hint
    os.utime(served.source / FILE)
    with pytest.raises(RemapError, match="with other names or before it changed"):
        mount(plan_of(served.source), str(served.path), OPEN)
    assert (served.path / "sub" / "other.bin").read_bytes() == expected(served.source / "sub" / "other.bin")
    with pytest.raises(RemapError, match=f"{served.source} is already mounted at"):
        check_mountpoint(plan_of(other), str(served.path))


def test_a_truncated_source_is_an_error_and_an_overwritten_one_is_seen(served: Served) -> None:
    """There is no server to notice: what the kernel has cached stays, what it reads anew is what is there."""
    path = served.path / FILE
    with (served.source / FILE).open("r+b") as stream:
        stream.seek(2 << 20)
        stream.write(b"changed!")
    descriptor = os.open(path, os.O_RDONLY)
    try:
        assert os.pread(descriptor, 8, (2 << 20) + 4096) == b"changed!"
        os.truncate(served.source / FILE, 1 << 20)
        if served.backing == "files":
            with pytest.raises(OSError, match="Input/output error"):
                os.pread(descriptor, 4096, 4 << 20)
    finally:
        os.close(descriptor)


def test_a_removed_or_replaced_source_is_read_on(served: Served) -> None:
    """The kernel holds the files that were checked."""
    content = expected(served.source / FILE)
    (served.source / FILE).unlink()
    (served.source / FILE).write_bytes(b"another file")
    assert (served.path / FILE).read_bytes() == content


def test_a_private_mount_lets_nobody_else_in(
    source_dir: Path, serving: Callable[..., AbstractContextManager[Served]]
) -> None:
    """By the mode of its top directory; an open one lets others in as the modes say."""
    source_dir.chmod(0o755)
    for open_to, code in (("all", 0), ("me", 1)):
        with serving(source_dir, "files", open_to) as served:
            command = ["/bin/cat", served.path / "sub" / "deep" / "small"]
            nobody = {"user": 65534, "group": 65534, "extra_groups": []}
            run = subprocess.run(command, capture_output=True, check=False, **nobody)  # type: ignore[call-overload]  # as they come
            assert (run.returncode, b"Permission denied" in run.stderr) == (code, bool(code))


@pytest.mark.parametrize("name", ["a source, with \\ in its name", "n" * 200 + "/" + "m" * 200, "\udcff\n"])
def test_sources_with_odd_and_long_names_are_mounted(tmp_path: Path, mountpoint: Path, name: str) -> None:
    """The kernel takes 255 bytes: of a longer path the end is shown."""
    source = tmp_path / name
    source.mkdir(parents=True)
    (source / FILE).write_bytes(random_bytes(2 << 20, 3))
    mounted = mount(plan_of(source), str(mountpoint), OPEN)
    try:
        assert (mountpoint / FILE).read_bytes() == expected(source / FILE)
        assert mounted.is_ours
        if len(name) < 100:
            assert mounted.checkpoint == str(source)
        else:
            assert str(source).endswith(mounted.checkpoint.removeprefix("..."))
            assert mounted.checkpoint.startswith(".../")
    finally:
        unmount(str(mountpoint))


def test_background_leaves_no_process(tmp_path: Path, mountpoint: Path) -> None:
    """The command returns, and nothing of it goes on."""
    source = tmp_path / "source"
    source.mkdir()
    header = b'{"a":{"dtype":"U8","shape":[4096],"data_offsets":[0,4096]}}'.ljust(4088)
    data = len(header).to_bytes(8, "little") + header + random_bytes(4096, 5)
    (source / "model.safetensors").write_bytes(data)
    run = remapfs("mount", source, mountpoint, "--presenter", "erofs", "--background")
    try:
        assert (run.returncode, run.stdout) == (0, ""), run.stderr
        assert (mountpoint / "model.safetensors").read_bytes() == data
        commands = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
        assert not any(os.fsencode(mountpoint) in command for command in commands)
        again = remapfs("mount", source, mountpoint, "--presenter", "erofs", "--background")
        assert again.returncode == 0
        assert "is already mounted" in again.stderr
    finally:
        ended = remapfs("umount", mountpoint)
    assert (ended.returncode, ended.stderr) == (0, "")
    refused = remapfs("mount", source, mountpoint, "--image-dir", tmp_path)
    assert refused.returncode == 2
    assert "--image-dir is for --presenter erofs" in refused.stderr
