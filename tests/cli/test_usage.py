"""What every failure looks like."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from mounting import remapfs
from remapfs import __version__
from situations import shard

if TYPE_CHECKING:
    from pathlib import Path

COMMANDS = [
    *("mount", "status", "warm", "umount", "export", "verify", "plan", "check", "suggest", "presets"),
    *("doctor", "install-units", "demo"),
]


@pytest.mark.parametrize(
    ("arguments", "error", "hint"),
    [
        (["nope"], "No such command 'nope'.", "remapfs --help"),
        (["--nope"], "No such option '--nope'.", "remapfs --help"),
        (["plan"], "Missing argument 'SOURCE'.", "remapfs plan --help"),
        (["mount", "a"], "Missing argument 'MOUNTPOINT'.", "remapfs mount --help"),
        (["umount"], "Missing argument 'MOUNTPOINT'.", "remapfs umount --help"),
        (["demo", "x"], "Got unexpected extra argument (x)", "remapfs demo --help"),
        (["plan", "a", "--index", "none"], "Invalid value for '--index': 'none'", "remapfs plan --help"),
        (["mount", "a", "b", "--threads", "0"], "Invalid value for '--threads': 0", "remapfs mount --help"),
        (["mount", "a", "b", "--threads", "x"], "Invalid value for '--threads': 'x'", "remapfs mount --help"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_wrong_command_line(arguments: list[str], error: str, hint: str) -> None:
    """An error, a hint where to look, exit code 2, and nothing on stdout."""
    run = remapfs(*arguments)
    assert run.returncode == 2
    assert run.stderr.startswith(f"error: {error}")
    assert run.stderr.splitlines()[-1] == f"hint:  see: {hint}"
    assert run.stdout == ""


@pytest.mark.parametrize(
    ("arguments", "error", "hint"),
    [
        (["plan", "/nowhere"], "the source /nowhere does not exist", "give the directory that holds"),
        (["mount", "/nowhere", "/"], "the source /nowhere does not exist", "give the directory"),
        (
            ["plan", "/", "--rules", "/nowhere.toml"],
            "cannot read the rules /nowhere.toml: ",
            "check the path",
        ),
        (
            ["plan", "/", "--preset", "deepseek"],
            "there is no preset 'deepseek'",
            "did you mean 'deepseek-v4'?",
        ),
        (["presets", "none"], "there is no preset 'none'", "the presets are: add-prefix, "),
        (
            ["mount", "a", "b", "--private", "--allow-other"],
            "--private and --allow-other exclude",
            "give one",
        ),
        (["umount", "/nowhere"], "nothing is mounted at /nowhere", "remapfs mounts are listed by"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_input(arguments: list[str], error: str, hint: str) -> None:
    """The same form, and exit code 2 too."""
    run = remapfs(*arguments)
    assert run.returncode == 2
    first, *_, last = run.stderr.splitlines()
    assert first.startswith(f"error: {error}")
    assert last.startswith(f"hint:  {hint}")
    assert run.stdout == ""


def test_no_command_shows_the_help() -> None:
    """With every command, and exit code 2."""
    run = remapfs()
    assert run.returncode == 2
    assert all(f"\n  {command} " in run.stdout + run.stderr for command in COMMANDS)


@pytest.mark.parametrize("command", [[], *([command] for command in COMMANDS)], ids=" ".join)
def test_help_has_examples(command: list[str]) -> None:
    """Of every command, by either option."""
    run = remapfs(*command, "--help")
    assert run.returncode == 0
    assert "Examples:\n" in run.stdout
    assert remapfs(*command, "-h").stdout == run.stdout


def test_the_version_is_the_package_s() -> None:
    """One place to read it."""
    assert remapfs("--version").stdout == f"remapfs {__version__}\n"


def test_lines_of_a_message_stand_below_each_other(tmp_path: Path) -> None:
    """Those after the first are indented as far as it."""
    (tmp_path / "m.safetensors").write_bytes(shard({"tensors": [["a.0", "U8", [2]], ["a.1", "U8", [2]]]}))
    rules = tmp_path / "rules.toml"
    rules.write_text("[[refuse]]\nmatch = 'a'\nbecause = 'it is so'\n")
    assert remapfs("plan", tmp_path, "--rules", rules).stderr == (
        "error: 2 tensors cannot be loaded: it is so\n"
        "       a.{0-1}   (2)\n"
        "hint:  to present them all the same: --force\n"
    )
    forced = remapfs("plan", tmp_path, "--rules", rules, "--force")
    assert (forced.returncode, forced.stderr) == (0, "")
