"""`remapfs mount` and `remapfs umount`, as a user runs them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mounting import missing, mounted, remapfs
from remapfs import Plan, load_rules, make_plan, read_checkpoint
from remapfs.present.erofs import looks_possible
from situations import shard

pytestmark = pytest.mark.skipif(missing() is not None, reason=missing() or "")

RULES = "[[rename]]\nprefix = 'a'\nto = 'b'\n"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Write a checkpoint of one tensor, rules and a mount point beside it."""
    folder = tmp_path / "source"
    # Closed itself, so that it is no news that directories above it are.
    folder.mkdir(mode=0o700)
    (folder / "model.safetensors").write_bytes(shard({"tensors": [["a", "U8", [2]]], "trailing": 1}))
    (tmp_path / "rules.toml").write_text(RULES)
    (tmp_path / "mnt").mkdir()
    return folder


def kinds(mountpoint: Path) -> list[str]:
    """List the types of what is mounted at a path."""
    lines = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    return [kind for _, where, kind, *_ in lines if where == str(mountpoint)]


def load(source: Path, rules: Path) -> Plan:
    """Make the plan of a mount."""
    return make_plan(read_checkpoint(source), load_rules(str(rules)))


def test_in_the_background_it_returns_when_the_mount_answers(source: Path) -> None:
    """Without a word, and the files are there at once."""
    with mounted(source) as root:
        assert kinds(root) == ["fuse.remapfs"]
        assert os.listdir(root) == ["model.safetensors"]
    assert kinds(root) == []


def test_paths_may_be_relative(source: Path) -> None:
    """Although the server goes to the root directory, also for its log."""
    here = source.parent
    run = remapfs(
        "mount", "source", "mnt", "--rules", "rules.toml", "--background", "--log", "log", cwd=str(here)
    )
    try:
        assert (run.returncode, run.stdout, run.stderr) == (0, "", "")
        assert b'"b":' in (here / "mnt" / "model.safetensors").read_bytes()
        assert (here / "log").exists()
    finally:
        run = remapfs("umount", "mnt", cwd=str(here))
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")


@pytest.mark.parametrize("options", [[], ["--background"]], ids=["foreground", "background"])
def test_the_server_s_own_error_is_told(source: Path, options: list[str]) -> None:
    """In the same words and with the same exit code, whether or not it is in the background."""
    missing_one = source.parent / "none"
    run = remapfs("mount", source, missing_one, *options)
    assert run.returncode == 2
    assert run.stderr == (
        f"error: the mount point {missing_one} does not exist\nhint:  mkdir -p {missing_one}\n"
    )


def test_a_failure_in_the_background_is_in_the_log_too(source: Path) -> None:
    """For who finds only the log."""
    log = source.parent / "log"
    remapfs("mount", source, source.parent / "none", "--background", "--log", log)
    assert f"remapfs the mount point {source.parent / 'none'} does not exist" in log.read_text()


@pytest.mark.parametrize("options", [[], ["--background"]], ids=["foreground", "background"])
def test_bad_input_mounts_nothing(source: Path, options: list[str]) -> None:
    """A rule that matches nothing, a log that cannot be written."""
    mountpoint, rules = source.parent / "mnt", source.parent / "rules.toml"
    rules.write_text(RULES.replace("'a'", "'z'"))
    run = remapfs("mount", source, mountpoint, "--rules", rules, *options)
    assert run.returncode == 2
    assert "matches no tensor" in run.stderr
    run = remapfs("mount", source, mountpoint, "--log", source / "none" / "log", *options)
    assert run.returncode == 2
    assert run.stderr.startswith(f"error: cannot write the log {source / 'none' / 'log'}: No such file")
    assert kinds(mountpoint) == []


def test_in_the_foreground_a_line_says_that_it_is_mounted(source: Path) -> None:
    """With what was done; SIGTERM ends it with exit code 0."""
    mountpoint, rules = source.parent / "mnt", source.parent / "rules.toml"
    command = [sys.executable, "-m", "remapfs", "mount", str(source), str(mountpoint), "--rules", str(rules)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as run:
        try:
            assert run.stderr is not None
            lines = iter(run.stderr.readline, "")
            line = next(line for line in lines if line.startswith("remapfs: "))
            done, _, faster = line.rstrip("\n").partition("; ")
            assert done == (
                f"remapfs: {os.path.realpath(source)} on {mountpoint} (fuse): 1 tensor in 1 shard, "
                "1 renamed, 0 dropped (1 healed: see remapfs plan)"
            )
            assert ("--presenter erofs" in faster) is looks_possible(load(source, rules))
            assert os.listdir(mountpoint) == ["model.safetensors"]
        finally:
            run.send_signal(signal.SIGTERM)
            run.communicate(timeout=60)
    assert run.returncode == 0
    assert kinds(mountpoint) == []


def test_auto_takes_what_is_fastest_here_and_says_why(source: Path) -> None:
    """One line on stderr, before anything is mounted; what was chosen is what is mounted."""
    mountpoint, rules = source.parent / "mnt", source.parent / "rules.toml"
    run = remapfs("mount", source, mountpoint, "--rules", rules, "--presenter", "auto", "--background")
    assert run.returncode == 0, run.stderr
    try:
        (line,) = [line for line in run.stderr.splitlines() if line.startswith("presenter ")]
        chosen = "erofs" if missing("erofs") is None else "fuse"
        assert line.startswith(f"presenter {chosen}: ")
        assert kinds(mountpoint) == [{"erofs": "erofs", "fuse": "fuse.remapfs"}[chosen]]
    finally:
        assert remapfs("umount", mountpoint).returncode == 0


@pytest.mark.skipif(missing("erofs") is not None, reason=missing("erofs") or "")
def test_auto_names_what_speaks_against_the_faster_one(source: Path) -> None:
    """The kernel alone cannot serve a large shard whose bytes are out of step with the presented ones."""
    tensors = [["gone", "U8", [5]], ["a", "U8", [40 << 20]]]
    (source / "model.safetensors").write_bytes(shard({"tensors": tensors}))
    rules = source.parent / "drop.toml"
    rules.write_text("[[drop]]\nprefix = 'gone'\n")
    mountpoint = source.parent / "mnt"
    run = remapfs("mount", source, mountpoint, "--rules", rules, "--presenter", "auto", "--background")
    assert run.returncode == 0, run.stderr
    try:
        assert (
            "presenter fuse: erofs is faster, but the erofs presenter cannot show model.safetensors"
            in run.stderr
        )
        assert kinds(mountpoint) == ["fuse.remapfs"]
    finally:
        assert remapfs("umount", mountpoint).returncode == 0


def test_warnings_are_said_when_mounting(source: Path) -> None:
    """A user who does not plan first sees them too."""
    (source / "model.safetensors").write_bytes(shard({"tensors": [["text.a", "U8", [2]]]}))
    rules = source.parent / "rules.toml"
    rules.write_text("[[rename]]\nprefix = 'text'\nto = 'text.text'\n")
    mountpoint = source.parent / "mnt"
    run = remapfs("mount", source, mountpoint, "--rules", rules, "--background")
    assert remapfs("umount", mountpoint).returncode == 0
    assert run.returncode == 0
    assert run.stderr.startswith("warned  model.safetensors: a rule doubled a part of text.text.a")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root lets everyone in without being asked")
def test_a_closed_directory_above_an_open_source_is_told(source: Path) -> None:
    """Others cannot reach the source, so they are kept out of the mount too."""
    source.chmod(0o755)
    source.parent.chmod(0o700)
    run = remapfs("mount", source, source.parent / "mnt", "--background")
    assert remapfs("umount", source.parent / "mnt").returncode == 0
    assert run.stderr == (
        f"left    {source}: not every user can enter: "
        "a directory above the source does not let everyone through\n"
    )
    run = remapfs("mount", source, source.parent / "mnt", "--background", "--private")
    assert remapfs("umount", source.parent / "mnt").returncode == 0
    assert (run.returncode, run.stderr) == (0, "")


def test_umount_leaves_other_file_systems_alone() -> None:
    """It ends only what remapfs mounted."""
    run = remapfs("umount", "/proc")
    assert run.returncode == 2
    assert run.stderr.startswith("error: the mount at /proc is proc, not fuse.remapfs: it is left alone")


def test_umount_of_a_mount_in_use_fails_and_leaves_it(source: Path) -> None:
    """Exit code 1: the input was good."""
    with mounted(source) as root:
        with (root / "model.safetensors").open("rb") as stream:
            run = remapfs("umount", root)
            assert run.returncode == 1
            assert run.stderr.startswith(f"error: {root} is in use\nhint:  ")
            assert stream.read(1)
        assert kinds(root) == ["fuse.remapfs"]
    assert kinds(root) == []
