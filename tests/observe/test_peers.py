"""Who may ask about a mount."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from observe.conftest import foreground, status

if TYPE_CHECKING:
    from collections.abc import Iterator

    from observe.conftest import Foreground

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")

# It becomes the user nobody by itself, for that user need not be able to start this interpreter.
_ASK = """
import json, os, socket, sys
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
told = b""
try:
    with socket.socket(socket.AF_UNIX) as asking:
        asking.connect(sys.argv[1])
        while piece := asking.recv(65536):
            told += piece
except PermissionError as error:
    told = json.dumps({"errno": error.errno}).encode()
print(told.decode())
"""
_ASK_FOR_ALL = """
import os, sys
import remapfs.cli.status, remapfs.observe.ask, remapfs.observe.mounts
from remapfs.cli.main import main
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
sys.argv = ["remapfs", "status", sys.argv[1], "--json"]
main()
"""
_LIE = """
import os, socket, sys
listening = socket.socket(socket.AF_UNIX)
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
listening.bind(sys.argv[1])
listening.listen()
print("ready", flush=True)
while True:
    connection, _ = listening.accept()
    with connection:
        connection.sendall(b'{"state": "serving"}')
"""


@pytest.fixture
def served(source: Path) -> Iterator[Foreground]:
    """Mount as root."""
    with foreground(source) as mount:
        yield mount


def as_nobody(socket: Path) -> dict[str, Any]:
    """Ask as another user, without remapfs."""
    run = subprocess.run(
        [sys.executable, "-c", _ASK, str(socket)], capture_output=True, text=True, check=True
    )
    told: dict[str, Any] = json.loads(run.stdout)
    return told


def test_another_user_is_refused_by_the_socket(served: Foreground) -> None:
    """Its mode lets nobody connect."""
    socket = Path(f"/run/remapfs/{status(served.path)['device']}.sock")
    assert set(as_nobody(socket)) == {"errno"}


def test_another_user_is_refused_by_name_where_the_mode_is_open(served: Foreground) -> None:
    """The server asks the kernel who it is, and tells nothing."""
    socket = Path(f"/run/remapfs/{status(served.path)['device']}.sock")
    socket.chmod(0o666)
    assert as_nobody(socket) == {"refused": "user 65534 may not ask"}
    assert status(served.path)["state"] == "serving"


def test_another_user_is_told_why_there_are_no_figures(served: Foreground) -> None:
    """With exit code 1; what everyone can see in the mount table is told."""
    command = [sys.executable, "-c", _ASK_FOR_ALL, str(served.path)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 1, run.stderr
    told = json.loads(run.stdout)
    assert told["state"] == "unknown"
    assert told["why"] == "only root and the user who mounted it may ask"
    assert told["mountpoint"] == str(served.path)
    assert "reads" not in told


def test_another_user_cannot_answer_in_its_place(served: Foreground) -> None:
    """Who asks looks at who answers: a socket that nobody serves there counts for nothing."""
    socket = Path(f"/run/remapfs/{status(served.path)['device']}.sock")
    socket.unlink()
    socket.parent.chmod(0o777)
    try:
        command = [sys.executable, "-c", _LIE, str(socket)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as liar:
            assert liar.stdout is not None
            assert liar.stdout.readline() == b"ready\n"
            told = status(served.path, code=1)
            liar.kill()
    finally:
        socket.parent.chmod(0o755)
        socket.unlink(missing_ok=True)
    assert told["state"] == "alone"
