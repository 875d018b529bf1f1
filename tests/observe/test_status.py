"""`remapfs status` on real mounts, whatever state they are in."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from mounting import PRESENTERS, missing, mounted, remapfs
from observe.conftest import foreground, status, until
from processes import child_of
from remapfs.present.mountpoint import mounted_at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from observe.conftest import Foreground

_SHARD = "model.safetensors"
_BLANK = {"state", "why", "mountpoint", "device", "source", "presenter", "readers", "unseen"}


@pytest.fixture
def served(source: Path) -> Iterator[Foreground]:
    """Mount it, with a server that may be killed and stopped."""
    with foreground(source) as mount:
        yield mount


def server_of(mount: Foreground) -> int:
    """Give the process that serves now; wait until there is one."""
    until(lambda: child_of(mount.process.pid) is not None)
    return child_of(mount.process.pid) or 0


def reporter_of(mount: Foreground) -> int:
    """Give the process that answers `remapfs status` now; wait until there is one."""
    until(lambda: child_of(mount.process.pid, "remapfs-status") is not None)
    return child_of(mount.process.pid, "remapfs-status") or 0


def test_it_tells_what_is_mounted_and_what_was_read(source: Path, served: Foreground) -> None:
    """Figures, and the same source and rules as the mount has."""
    size = len(served.read())
    told = status(served.path)
    assert told["state"] == "serving"
    assert (told["mountpoint"], told["source"]) == (str(served.path), str(source.resolve()))
    assert (told["presenter"], told["rules"]["count"]) == ("fuse", 0)
    assert told["read_bytes"] >= size
    assert told["reads"] == told["requests"]["read"] >= size // (1 << 20)
    assert told["errors"] == {}
    assert told["generations"] == 1
    assert told["last_end"] is None
    assert told["processes"]["server"]["pid"] == server_of(served)
    assert told["memory"] > 0


@pytest.mark.parametrize("presenter", PRESENTERS)
def test_each_presenter_is_told_of(source: Path, presenter: str) -> None:
    """With the same digest of the rules; those with a server say what was read, erofs has none."""
    reason = missing(presenter)
    if reason:
        pytest.skip(reason)
    with mounted(source, presenter="fuse") as other:
        digest = status(other)["rules"]["digest"]
    with mounted(source, presenter=presenter) as mountpoint:
        size = len((mountpoint / _SHARD).read_bytes())
        told = status(mountpoint)
        assert (told["state"], told["presenter"]) == ("serving", presenter)
        assert told["rules"] == {"count": 0, "digest": digest}
        assert told["uptime"] >= 0
        if presenter == "erofs":
            assert "reads" not in told
        else:
            assert told["read_bytes"] >= size
    assert remapfs("status", mountpoint).returncode == 2


def test_counts_go_on_when_the_server_is_killed(served: Foreground) -> None:
    """Between two looks there is another server, and nothing was forgotten."""
    served.read()
    before = status(served.path)
    os.kill(server_of(served), signal.SIGKILL)
    served.read()
    after = status(served.path)
    assert after["state"] == "serving"
    assert after["generations"] == before["generations"] + 1
    assert after["last_end"]["how"] == "was killed by SIGKILL"
    assert after["reads"] >= before["reads"] + 3
    assert after["read_bytes"] >= before["read_bytes"] + (3 << 20)
    assert after["since"][:16] == before["since"][:16]


def test_a_stopped_server_is_told_of(served: Foreground) -> None:
    """With exit code 1 and how to wake it; a path inside the mount is not asked for either."""
    server = server_of(served)
    os.kill(server, signal.SIGSTOP)
    try:
        for path in (served.path, served.path / "not" / "asked"):
            told = status(path, code=1)
            assert told["state"] == "stopped"
            assert f"kill -CONT {server}" in told["why"]
    finally:
        os.kill(server, signal.SIGCONT)
    until(lambda: remapfs("status", served.path).returncode == 0)


def test_a_dead_mount_is_told_of_and_cleared(served: Foreground) -> None:
    """Also while its files are open, when the kernel does not let go of it by itself."""
    server = server_of(served)
    descriptor = os.open(served.path / _SHARD, os.O_RDONLY)
    try:
        served.process.kill()
        served.process.wait()
        os.kill(server, signal.SIGKILL)
        until(lambda: remapfs("status", served.path).returncode == 1 and not Path(f"/proc/{server}").exists())
        told = status(served.path, code=1)
        assert set(told) >= _BLANK
        if os.geteuid() == 0:
            assert told["state"] == "dead"
        run = remapfs("umount", served.path)
        assert run.returncode == 0, run.stderr
    finally:
        # Closing says that the server is gone, too.
        with contextlib.suppress(OSError):
            os.close(descriptor)
    assert mounted_at(str(served.path)) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root sees who holds a mount")
def test_a_server_without_supervisor_is_told_of(served: Foreground) -> None:
    """It serves, but nobody answers for it and nobody would replace it."""
    server = server_of(served)
    served.process.kill()
    served.process.wait()
    told = status(served.path, code=1)
    assert told["state"] == "alone"
    assert str(server) in told["why"]
    assert served.read()
    remapfs("umount", served.path)


def test_the_status_process_is_replaced_when_it_dies(served: Foreground) -> None:
    """The mount does not notice, and the counts are the mount's."""
    served.read()
    before = status(served.path)
    server, reporter = server_of(served), reporter_of(served)
    os.kill(reporter, signal.SIGKILL)
    until(lambda: reporter_of(served) != reporter)
    after = status(served.path)
    assert after["reads"] == before["reads"] > 0
    assert (server_of(served), after["generations"]) == (server, 1)


def test_a_status_process_that_dies_again_and_again_is_given_up(served: Foreground) -> None:
    """With one line in the log; the mount is served on, and the next server has another one."""

    def given_up() -> bool:
        found = child_of(served.process.pid, "remapfs-status")
        with contextlib.suppress(ProcessLookupError):
            if found:
                os.kill(found, signal.SIGKILL)
        return any("dies again and again" in line for line in served.lines())

    until(given_up)
    assert served.read()
    assert remapfs("status", served.path).returncode == 1
    os.kill(server_of(served), signal.SIGKILL)
    served.read()
    assert status(served.path)["generations"] == 2
    served.end()


def test_a_status_process_that_is_stopped_makes_nobody_wait(served: Foreground) -> None:
    """For longer than a moment; and SIGTERM ends it with the mount."""
    os.kill(reporter_of(served), signal.SIGSTOP)
    told = status(served.path, code=1)
    assert (told["state"], "does not answer" in told["why"]) == ("unknown", True)
    served.end()
    assert mounted_at(str(served.path)) is None


def test_it_ends_with_its_supervisor(served: Foreground) -> None:
    """So that nothing is left of a mount that was killed."""
    reporter, server = reporter_of(served), server_of(served)
    served.process.kill()
    served.process.wait()
    os.kill(server, signal.SIGKILL)
    until(lambda: not Path(f"/proc/{reporter}").exists())


def test_readers_are_named(served: Foreground) -> None:
    """By process, whether they have files open or mapped."""
    script = (
        "import mmap, sys; file = open(sys.argv[1], 'rb'); other = open(sys.argv[1], 'rb');"
        "mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ); mapped[:1];"
        "print('ready', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(served.path / _SHARD)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as reader:
        assert reader.stdout is not None
        assert reader.stdout.readline() == b"ready\n"
        readers = status(served.path)["readers"]
        assert [each["pid"] for each in readers] == [reader.pid]
        # mmap keeps a descriptor of its own.
        assert readers[0]["open"] == 3
        assert readers[0]["mapped"] == 1
        assert readers[0]["files"] == [_SHARD]
        assert f"(pid {reader.pid}): 3 open, 1 mapped" in remapfs("status", served.path).stdout
        reader.kill()
    assert status(served.path)["readers"] == []


def test_a_link_to_a_mount_and_a_path_in_it_lead_to_it(tmp_path: Path, served: Foreground) -> None:
    """As long as the way there is not in the mount."""
    (tmp_path / "link").symlink_to(served.path)
    (tmp_path / "relative").symlink_to("link/..")
    assert status(tmp_path / "link")["device"] == status(served.path / _SHARD)["device"]
    assert status(tmp_path / "relative" / served.path.name)["mountpoint"] == str(served.path)


def test_without_a_mount_point_all_are_told_of(source: Path, served: Foreground) -> None:
    """As a list, and as text one after the other."""
    with mounted(source) as other:
        run = remapfs("status", "--json")
        told: list[dict[str, Any]] = json.loads(run.stdout)
        assert {str(served.path), str(other)} <= {each["mountpoint"] for each in told}
        text = remapfs("status").stdout
        assert f"{served.path}  serving\n" in text
        assert f"{other}  serving\n" in text


@pytest.mark.parametrize("path", ["/", "/nowhere/at/all", "nowhere"])
def test_a_path_that_is_no_mount(path: str) -> None:
    """It is bad input."""
    run = remapfs("status", path)
    assert run.returncode == 2
    assert run.stderr == f"error: no mount of remapfs at {path}\nhint:  see all of them: remapfs status\n"


def test_the_socket_goes_with_the_mount(served: Foreground) -> None:
    """And is closed to others while it is there."""
    device = status(served.path)["device"]
    path = Path(f"/run/remapfs/{device}.sock")
    if os.geteuid() != 0:
        pytest.skip("the socket of another user lies elsewhere")
    assert path.stat().st_mode & 0o777 == 0o600
    served.end()
    assert not path.exists()


def test_asking_leaves_nothing_behind(served: Foreground) -> None:
    """No descriptor in any process of the mount, whoever connects and says nothing, or is gone."""
    device = status(served.path)["device"]
    if os.geteuid() != 0:
        pytest.skip("the socket of another user lies elsewhere")
    script = (
        "import socket, sys\n"
        "for turn in range(100):\n"
        "    with socket.socket(socket.AF_UNIX) as asking:\n"
        "        asking.connect(sys.argv[1])\n"
        "        turn % 2 and asking.recv(100000)\n"
    )

    def descriptors() -> list[int]:
        pids = (served.process.pid, server_of(served), reporter_of(served))
        return [len(os.listdir(f"/proc/{pid}/fd")) for pid in pids]

    before = descriptors()
    for _ in range(3):
        subprocess.run([sys.executable, "-c", script, f"/run/remapfs/{device}.sock"], check=True)
    assert status(served.path)["state"] == "serving"
    until(lambda: descriptors() == before)
