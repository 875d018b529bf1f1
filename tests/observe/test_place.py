"""Where sockets lie, and finding mounts by path."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

import pytest

from remapfs.observe import place
from remapfs.observe.mounts import find
from remapfs.observe.place import directories, listen, own_directory, socket_path

if TYPE_CHECKING:
    from pathlib import Path

_USER = 1000


@pytest.fixture
def user(monkeypatch: pytest.MonkeyPatch) -> None:
    """Be a user other than root, whom nobody gave a place."""
    monkeypatch.setattr(os, "geteuid", lambda: _USER)
    for name in ("RUNTIME_DIRECTORY", "XDG_RUNTIME_DIR"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.usefixtures("user")
def test_a_user_without_a_place_has_no_socket() -> None:
    """A directory that anybody may write to, as /tmp, would be no place."""
    assert own_directory() is None
    assert listen("0:1") is None


@pytest.mark.usefixtures("user")
def test_a_user_has_the_socket_where_the_login_gives_a_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And root finds it there."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    made = listen("0:1")
    assert made is not None
    listening, path = made
    with listening:
        assert path == str(tmp_path / "remapfs/0:1.sock")
        assert (tmp_path / "remapfs/0:1.sock").stat().st_mode & 0o777 == 0o600
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert directories(_USER) == ("/run/remapfs", "/run/user/1000/remapfs")


@pytest.mark.usefixtures("user")
def test_a_service_has_it_where_its_manager_gives_a_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before that of a login; the first, if there are several."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/1000")
    monkeypatch.setenv("RUNTIME_DIRECTORY", "/run/remapfs:/run/other")
    assert own_directory() == "/run/remapfs"


def test_what_the_dead_left_is_replaced_and_cleared_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The socket of a process that lives stays."""
    monkeypatch.setattr(place, "own_directory", lambda: str(tmp_path))
    made = [listen(device) for device in ("0:1", "0:2", "0:3")]
    for dead in (made[0], made[1]):
        assert dead is not None
        dead[0].close()
    again = listen("0:1")
    assert again is not None
    assert sorted(os.listdir(tmp_path)) == ["0:1.sock", "0:3.sock"]
    with again[0], socket.socket(socket.AF_UNIX) as asking:
        asking.connect(socket_path(str(tmp_path), "0:1"))
    assert made[2] is not None
    made[2][0].close()


def test_links_in_a_circle_lead_to_no_mount(tmp_path: Path) -> None:
    """And to no endless search."""
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    assert find(str(tmp_path / "a" / "x")) is None
