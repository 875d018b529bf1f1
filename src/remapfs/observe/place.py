"""Where the sockets and records lie that tell about mounts, keyed by a mount's device."""

from __future__ import annotations

import contextlib
import os
import socket
from typing import Final

SYSTEM: Final = "/run/remapfs"
_DIRECTORY_MODE: Final = 0o755
_SOCKET_MODE: Final = 0o600
_WAITING: Final = 16


def own_directory() -> str | None:
    """Say where this process puts its sockets; None if the host gave a user other than root no place."""
    if os.geteuid() == 0:
        return SYSTEM
    # A service manager makes a directory for a service that it runs as another user.
    given = os.environ.get("RUNTIME_DIRECTORY", "").partition(":")[0]
    if given:
        return given
    user = os.environ.get("XDG_RUNTIME_DIR")
    return os.path.join(user, "remapfs") if user else None


def directories(owner: int) -> tuple[str, ...]:
    """List where the socket of a mount may lie that user `owner` made."""
    own = own_directory()
    places = (SYSTEM, *([own] if own else ()), *([f"/run/user/{owner}/remapfs"] if owner else ()))
    return tuple(dict.fromkeys(places))


def socket_path(directory: str, device: str) -> str:
    """Give the path of a mount's socket from its device, as `0:52`."""
    return os.path.join(directory, f"{device}.sock")


def record_path(directory: str, device: str) -> str:
    """Give the path of the record of a mount that no process serves."""
    return os.path.join(directory, f"{device}.json")


def listen(device: str) -> tuple[socket.socket, str] | None:
    """Listen on the socket of a mount that this process made, readable by its user and root alone.

    What a dead process left there is replaced. None if the host gave no place; raises OSError if it
    cannot be made.
    """
    directory = own_directory()
    if directory is None:
        return None
    os.makedirs(directory, mode=_DIRECTORY_MODE, exist_ok=True)
    _clear(directory)
    path = socket_path(directory, device)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
    made = f"{path}.{os.getpid()}"
    try:
        # Of the descriptor, before the name exists: at no moment may others connect.
        os.fchmod(listening.fileno(), _SOCKET_MODE)
        listening.bind(made)
        listening.listen(_WAITING)
        # Under its name only now, so that one that refuses is a dead process's.
        os.rename(made, path)
    except OSError:
        listening.close()
        with contextlib.suppress(OSError):
            os.unlink(made)
        raise
    return listening, path


def _clear(directory: str) -> None:
    """Remove the sockets that dead processes left."""
    for name in os.listdir(directory):
        if not name.endswith(".sock"):
            continue
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as connection:
            connection.setblocking(False)  # noqa: FBT003 - socket.setblocking takes no keyword
            try:
                connection.connect(os.path.join(directory, name))
            except ConnectionRefusedError:
                with contextlib.suppress(OSError):
                    os.unlink(os.path.join(directory, name))
            except OSError:
                continue


def written(listening: socket.socket) -> str:
    """Write the address of a TCP socket as users write it, with the port that it got."""
    host, port, *_ = listening.getsockname()
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
