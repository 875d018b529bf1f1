"""A server in a process of its own: what its parent is told.

Each runs in a fresh interpreter, since a test process with threads must not fork.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

SCRIPT = """
import json, os, sys, time
from remapfs import Plan, RemapError, RuntimeFailure
from remapfs.cli.background import in_background
from remapfs.present.options import MountOptions

def serve(plan, mountpoint, options, on_ready):
    BODY

started = time.monotonic()
try:
    in_background(serve, Plan("/", (), (), ()), sys.argv[1], MountOptions(), os.devnull)
    told = {}
except RemapError as error:
    told = {"message": error.message, "hint": error.hint, "code": error.exit_code}
print(json.dumps(told))
"""


def told(body: str, mountpoint: Path) -> dict[str, Any]:
    """Run a server that does no more than `body`, and give what the parent raised."""
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT.replace("BODY", body), str(mountpoint)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert run.stderr == ""
    found: dict[str, Any] = json.loads(run.stdout)
    return found


def test_a_server_that_is_ready_is_left_to_serve(tmp_path: Path) -> None:
    """The caller's pipes close although it goes on, and it writes when the caller is gone."""
    body = "on_ready(); time.sleep(0.2); open(mountpoint + '/served', 'w').close()"
    assert told(body, tmp_path) == {}
    for _ in range(100):
        if (tmp_path / "served").exists():
            return
        subprocess.run(["sleep", "0.05"], check=True)
    pytest.fail("the server ended with its caller")


@pytest.mark.parametrize(("kind", "code"), [("RemapError", 2), ("RuntimeFailure", 1)])
def test_what_the_server_raises_is_raised_here(tmp_path: Path, kind: str, code: int) -> None:
    """Message, hint and exit code, whatever characters and lines they have."""
    assert told(f"raise {kind}('nö\\r\"quoted\"', 'a hint', ['a line'])", tmp_path) == {
        "message": 'nö\\r"quoted"\na line',
        "hint": "a hint",
        "code": code,
    }


def test_an_unforeseen_failure_is_told(tmp_path: Path) -> None:
    """By its type and text, with exit code 1."""
    assert told("raise KeyError('x')", tmp_path) == {
        "message": "the server failed: KeyError('x')",
        "hint": "run without --background to see more",
        "code": 1,
    }


@pytest.mark.parametrize("body", ["os._exit(3)", "os.kill(os.getpid(), 9)", "return"])
def test_a_server_that_ends_without_a_word(tmp_path: Path, body: str) -> None:
    """It is no success."""
    assert told(body, tmp_path) == {
        "message": "the server ended before the mount answered",
        "hint": "run without --background to see why",
        "code": 1,
    }


def test_a_mount_that_does_not_answer_is_no_success(tmp_path: Path) -> None:
    """Although the server said that it is ready; the server is ended."""
    gone = tmp_path / "gone"
    found = told("on_ready(); time.sleep(60)", gone)
    assert found["message"] == f"the mount at {gone} does not answer: No such file or directory"
    assert found["code"] == 1
