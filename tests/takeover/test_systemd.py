"""The service manager's protocols, without a mount."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

from remapfs.present.supervise.systemd import Manager

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_without_a_manager_nobody_is_told() -> None:
    """An empty environment is the usual one."""
    found = Manager.take_from({})
    assert found == Manager()
    found.tell("READY=1")


def test_what_the_manager_says_is_taken_out_of_the_environment() -> None:
    """So that no child believes that it is meant."""
    environment = {"NOTIFY_SOCKET": "/n", "FDSTORE": "2", "WATCHDOG_USEC": "3000000", "PATH": "/bin"}
    assert Manager.take_from(environment) == Manager("/n", 2, 3.0)
    assert environment == {"PATH": "/bin"}


def test_what_is_meant_for_another_process_is_left_alone() -> None:
    """Descriptors and the watchdog name the process that they are for."""
    environment = {"LISTEN_PID": "1", "LISTEN_FDS": "2", "WATCHDOG_PID": "1", "WATCHDOG_USEC": "9"}
    assert Manager.take_from(environment) == Manager()


def test_descriptors_come_by_their_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """From 3 on; those that have none are unknown, and none is inherited by a child."""
    closed = []
    monkeypatch.setattr(os, "set_inheritable", lambda number, on: closed.append((number, on)))
    environment = {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "3", "LISTEN_FDNAMES": "a:b"}
    assert Manager.take_from(environment).kept == (("a", 3), ("b", 4), ("unknown", 5))
    assert closed == [(3, False), (4, False), (5, False)]


def test_an_abstract_socket_is_told() -> None:
    """Its name begins with @ in the environment, and with a zero byte in fact."""
    name = f"remapfs-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(f"\0{name}")
        Manager(f"@{name}").tell("READY=1", "STATUS=here")
        assert listening.recv(100) == b"READY=1\nSTATUS=here"


def test_a_manager_that_has_gone_is_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The mount does not depend on it."""
    Manager(str(tmp_path / "none")).tell("READY=1", "STATUS=here")
    assert "the service manager cannot be told 'READY=1': No such file or directory" in caplog.text
