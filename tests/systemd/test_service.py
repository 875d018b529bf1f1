"""remapfs@.service in a real systemd: start, kill, restart, upgrade, stop."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import pytest

from systemd.conftest import CONFIG, MOUNTPOINT, UNIT
from systemd.machine import SHARED

if TYPE_CHECKING:
    from systemd.machine import Machine

# Reads all shards again and again, from the server each time, until the file is there; prints what was wrong.
READER = """
import hashlib, json, os, pathlib, sys, time
stop, wanted, wrong, rounds, longest = sys.argv[1], None, [], 0, 0.0
files = sorted(pathlib.Path(sys.argv[2]).glob("*.safetensors"))
held = [open(file, "rb", buffering=0) for file in files]
pathlib.Path(stop + ".ready").touch()
while not os.path.exists(stop):
    digest = hashlib.sha256()
    for stream in held:
        begin = time.monotonic()
        try:
            os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            digest.update(os.pread(stream.fileno(), 1 << 26, 0))
        except OSError as error:
            wrong.append(f"{stream.name}: {error}")
        longest = max(longest, time.monotonic() - begin)
    wanted = wanted or digest.hexdigest()
    if digest.hexdigest() != wanted:
        wrong.append("other bytes")
    rounds += 1
print(json.dumps({"wrong": wrong[:5], "rounds": rounds, "digest": wanted, "longest": longest}))
"""


class Reader:
    """A process in the machine that reads while things happen, with all shards held open."""

    def __init__(self, machine: Machine, name: str) -> None:
        self._machine = machine
        self._stop = f"/run/{name}"
        self._out = f"/run/{name}.out"
        machine.run("rm", "-f", self._stop, f"{self._stop}.ready", self._out)
        machine.write(f"/run/{name}.py", READER)
        command = f"{sys.executable} /run/{name}.py {self._stop} {MOUNTPOINT} > {self._out} 2>&1"
        machine.run("systemd-run", "--quiet", f"--unit={name}", "--collect", "sh", "-c", command)
        machine.until(
            lambda: not machine.run("test", "-e", f"{self._stop}.ready", check=False).returncode, "it reads"
        )

    def end(self) -> dict[str, object]:
        """Let it stop, and give what it found."""
        self._machine.run("touch", self._stop)
        self._machine.until(lambda: "}" in self._machine.run("cat", self._out).stdout, "the reader has ended")
        found: dict[str, object] = json.loads(self._machine.run("cat", self._out).stdout)
        return found


def presented(machine: Machine) -> str:
    """Digest all shards as they are presented without a mount."""
    program = """
import hashlib, sys
from remapfs import load_preset, make_plan, open_file, read_checkpoint
rules = load_preset("deepseek-v4")
plan = make_plan(read_checkpoint(sys.argv[1], documents=rules.documents), rules)
digest = hashlib.sha256()
for file in sorted(plan.files, key=lambda file: file.path):
    if file.path.endswith(".safetensors"):
        digest.update(open_file(file).read())
print(digest.hexdigest())
"""
    return machine.python(program, f"{SHARED}/checkpoint").stdout.strip()


def test_the_units_are_valid(machine: Machine) -> None:
    """`systemd-analyze verify` has nothing to say, and `security` calls the service OK."""
    done = machine.run("systemd-analyze", "verify", f"/etc/systemd/system/{UNIT}".replace("@v4", "@"))
    assert done.stdout + done.stderr == ""
    said = machine.run("systemd-analyze", "security", "--no-pager", UNIT).stdout
    assert " OK " in said.splitlines()[-1]


def test_a_started_unit_is_one_that_can_be_read(started: Machine) -> None:
    """At once, without any wait; systemd keeps the mount's descriptor and its record."""
    assert "config.json" in started.run("ls", MOUNTPOINT).stdout
    assert started.show(UNIT, "NFileDescriptorStore") == {"NFileDescriptorStore": "2"}
    assert started.show(UNIT, "StatusText")["StatusText"] == f"{MOUNTPOINT}: mounted"


def test_a_unit_that_needs_the_mount_starts_after_it_and_notices_no_restart(machine: Machine) -> None:
    """With the drop-in that `install-units --drop-in` prints; a crash and a restart leave it running."""
    command = f"sh -c 'cat {MOUNTPOINT}/config.json > /run/serving && exec sleep 1000'"
    machine.run("mkdir", "-p", "/etc/systemd/system/serving.service.d")
    machine.write("/etc/systemd/system/serving.service", f"[Service]\nExecStart={command}\n")
    drop_in = machine.run("remapfs", "install-units", "--drop-in", "v4").stdout
    machine.write("/etc/systemd/system/serving.service.d/remapfs.conf", drop_in)
    machine.run("systemctl", "daemon-reload")
    machine.run("systemctl", "start", "serving")
    assert machine.state(UNIT) == "active"
    machine.until(lambda: "{" in machine.run("cat", "/run/serving", check=False).stdout, "it has read")
    before = machine.main_pid("serving.service")
    machine.kill(*machine.processes())
    machine.until(lambda: machine.state(UNIT) == "active" and machine.main_pid(UNIT) > 0, "it is up again")
    machine.run("systemctl", "restart", UNIT)
    assert machine.main_pid("serving.service") == before
    machine.run("systemctl", "stop", "serving", UNIT)
    assert not machine.mounted(MOUNTPOINT)


@pytest.mark.parametrize("victim", ["remapfs-server", "remapfs-status", "supervisor"])
def test_readers_do_not_notice_a_kill(started: Machine, victim: str) -> None:
    """Of the server, of the status process, and of the supervisor, which systemd starts again."""
    reader = Reader(started, f"killed-{victim}")
    for _ in range(3):
        before = started.main_pid(UNIT)
        if victim == "supervisor":
            started.kill(before)
            started.until(
                lambda before=before: (
                    started.state(UNIT) == "active" and started.main_pid(UNIT) not in (0, before)
                ),  # type: ignore[misc]
                "another supervisor",
            )
        else:
            gone = started.processes(victim)
            started.kill(*gone)
            started.until(
                lambda gone=gone: bool(set(started.processes(victim)) - set(gone)),  # type: ignore[misc]
                "another one",
            )
    found = reader.end()
    assert found["wrong"] == []
    assert found["digest"] == presented(started)


def test_readers_do_not_notice_restarts(started: Machine) -> None:
    """`systemctl restart` in a loop, under a reader that holds every shard open: the same mount, no error."""
    reader = Reader(started, "restarted")
    for _ in range(8):
        started.run("systemctl", "restart", UNIT)
    found = reader.end()
    assert found["wrong"] == []
    assert found["digest"] == presented(started)
    assert started.journal(UNIT).count("taking over the live mount") >= 8
    assert started.show(UNIT, "NFileDescriptorStore") == {"NFileDescriptorStore": "2"}
    assert len(started.processes("remapfs-server")) == 1


def test_a_restart_with_other_rules_cuts_readers_off_and_mounts_anew(machine: Machine) -> None:
    """Never a mix of old and new names."""
    machine.run("systemctl", "start", UNIT)
    machine.run("remapfs", "status", MOUNTPOINT)
    machine.write("/etc/remapfs/v4.toml", CONFIG.replace('preset = "deepseek-v4"\n', ""))
    try:
        machine.run("systemctl", "restart", UNIT)
        index = machine.run("cat", f"{MOUNTPOINT}/model.safetensors.index.json").stdout
        assert '"model.embed_tokens.weight"' in index
        assert "not what is mounted now" in machine.journal(UNIT)
    finally:
        machine.write("/etc/remapfs/v4.toml", CONFIG)
        machine.run("systemctl", "stop", UNIT)
    assert not machine.mounted(MOUNTPOINT)


def test_bad_input_fails_once_with_the_message_in_the_journal(machine: Machine) -> None:
    """Exit code 2 is not tried again: it would not mend."""
    machine.write("/etc/remapfs/bad.toml", 'source = "/nowhere"\nmountpoint = "/mnt"\n')
    assert machine.run("systemctl", "start", "remapfs@bad.service", check=False).returncode
    shown = machine.show("remapfs@bad.service", "ActiveState", "NRestarts", "ExecMainStatus")
    assert shown == {"ActiveState": "failed", "NRestarts": "0", "ExecMainStatus": "2"}
    said = machine.journal("remapfs@bad.service")
    assert "error: the source /nowhere does not exist" in said
    assert "hint:" in said


def test_a_mount_whose_service_has_failed_for_good_is_cleared(machine: Machine) -> None:
    """Nobody can start the server: readers see an empty directory, and no dead mount."""
    machine.run("systemctl", "start", UNIT)
    machine.run("mv", "/etc/remapfs/v4.toml", "/etc/remapfs/v4.away")
    machine.write("/etc/remapfs/v4.toml", CONFIG.replace("checkpoint", "gone"))
    try:
        # Both at once, so that nobody serves while the next start fails.
        machine.kill(*machine.processes())
        machine.until(lambda: machine.state(UNIT) == "failed", "it has failed")
        machine.until(lambda: not machine.mounted(MOUNTPOINT), "the mount is cleared")
    finally:
        machine.run("mv", "/etc/remapfs/v4.away", "/etc/remapfs/v4.toml")
        machine.run("systemctl", "reset-failed", UNIT)


def test_fstab_and_mount_units_work(machine: Machine) -> None:
    """A line of fstab becomes a .mount unit, which mount.remapfs mounts and umount ends."""
    place = "/mnt/fstab"
    machine.run("mkdir", "-p", place)
    line = (
        f"{SHARED}/checkpoint {place} remapfs ro,preset=deepseek-v4,nofail,x-systemd.mount-timeout=60 0 0\n"
    )
    machine.write("/etc/fstab", line)
    machine.run("systemctl", "daemon-reload")
    machine.run("systemctl", "start", "mnt-fstab.mount")
    assert machine.mounted(place)
    data = machine.run("cat", f"{place}/model.safetensors.index.json").stdout
    assert '"embed.weight"' in data
    machine.run("systemctl", "stop", "mnt-fstab.mount")
    assert not machine.mounted(place)
    wrong = machine.run(
        "mount", "-t", "remapfs", f"{SHARED}/checkpoint", place, "-o", "presets=x", check=False
    )
    assert wrong.returncode == 1
    assert "did you mean 'preset'?" in wrong.stderr


def test_status_is_told_of_the_service(started: Machine) -> None:
    """From the socket of the service, as root."""
    said = json.loads(started.run("remapfs", "status", MOUNTPOINT, "--json").stdout)
    text = json.dumps(said)
    assert "deepseek" in text or "fuse" in text


def test_a_unit_that_needs_the_mount_does_not_start_without_it(machine: Machine) -> None:
    """Where the mount cannot be made, the container is not started on an empty directory."""
    machine.write("/etc/remapfs/v4.toml", CONFIG.replace("checkpoint", "gone"))
    try:
        assert machine.run("systemctl", "start", "serving", check=False).returncode
        assert machine.state("serving.service") != "active"
    finally:
        machine.write("/etc/remapfs/v4.toml", CONFIG)
        machine.run("systemctl", "reset-failed", check=False)
