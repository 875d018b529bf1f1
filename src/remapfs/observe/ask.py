"""Asking about a mount: its status process first, then what the host itself knows. Nothing here can hang."""

from __future__ import annotations

import json
import os
import socket
import struct
from dataclasses import asdict, dataclass
from time import monotonic
from typing import TYPE_CHECKING, Final

from remapfs.observe.mounts import owner_of
from remapfs.observe.place import SYSTEM, directories, socket_path
from remapfs.observe.processes import look_at
from remapfs.observe.readers import holders, readers
from remapfs.observe.records import record_of
from remapfs.observe.report import SERVING
from remapfs.present.mountpoint import EROFS

if TYPE_CHECKING:
    from remapfs.observe.report import Document
    from remapfs.present.mountpoint import Mount

_SECONDS: Final = 2.0
_MOST_BYTES: Final = 1 << 20
_CREDENTIALS: Final = struct.Struct("=iII")  # struct ucred: pid, uid, gid
_INIT: Final = 1


@dataclass(frozen=True, slots=True)
class Told:
    """The status process answered."""

    document: Document


@dataclass(frozen=True, slots=True)
class Refused:
    """It does not answer this user."""


@dataclass(frozen=True, slots=True)
class Silent:
    """It is there and says nothing."""


@dataclass(frozen=True, slots=True)
class Absent:
    """Nobody is there to ask."""


Answer = Told | Refused | Silent | Absent


def status_of(mount: Mount) -> Document:
    """Tell all that can be known of a mount of remapfs, within some seconds."""
    owner = owner_of(mount)
    if mount.kind == EROFS:
        document = {**_blank(mount, EROFS), **record_of(mount), "state": SERVING, "why": ""}
    else:
        answer = ask(mount.device, owner)
        document = {**_blank(mount, None), **_known(mount, answer)}
    found = readers(mount.device)
    document["readers"] = None if found is None else [asdict(reader) for reader in found.found]
    document["unseen"] = None if found is None else found.unseen
    return document


def ask(device: str, owner: int) -> Answer:
    """Ask the status process of the mount with this device, which user `owner` made."""
    for directory in directories(owner):
        answer = _ask(directory, device, owner)
        if not isinstance(answer, Absent):
            return answer
    return Absent()


def _ask(directory: str, device: str, owner: int) -> Answer:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as connection:
        connection.settimeout(_SECONDS)
        try:
            connection.connect(socket_path(directory, device))
            # Another user's process must not tell root stories.
            if _peer(connection) not in _trusted(directory, owner):
                return Absent()
            return _understand(_read(connection))
        except PermissionError:
            return Refused()
        except (TimeoutError, BlockingIOError):
            return Silent()
        except OSError:
            return Absent()


def _understand(text: bytes) -> Answer:
    try:
        told = json.loads(text)
    except ValueError:
        return Silent()
    if not isinstance(told, dict):
        return Silent()
    return Refused() if "refused" in told else Told(told)


def _trusted(directory: str, owner: int) -> set[int]:
    # Root made this directory, and gave it to the user that serves.
    return {0, owner, os.geteuid()} | ({os.stat(directory).st_uid} if directory == SYSTEM else set())


def _peer(connection: socket.socket) -> int:
    told = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    uid: int = _CREDENTIALS.unpack(told)[1]
    return uid


def _read(connection: socket.socket) -> bytes:
    """Read to the end; raises TimeoutError if that takes too long in all."""
    deadline, told = monotonic() + _SECONDS, bytearray()
    while len(told) < _MOST_BYTES:
        left = deadline - monotonic()
        if left <= 0:
            raise TimeoutError
        connection.settimeout(left)
        piece = connection.recv(1 << 16)
        if not piece:
            break
        told += piece
    return bytes(told)


def _known(mount: Mount, answer: Answer) -> Document:
    match answer:
        case Told(document):
            return document
        case Refused():
            return {"state": "unknown", "why": "only root and the user who mounted it may ask"}
        case Silent():
            return {"state": "unknown", "why": "its status process does not answer; is it stopped?"}
        case Absent():
            return _held(mount.device)


def _held(device: str) -> Document:
    """Say who holds the descriptor of a mount that has nobody to ask."""
    found = holders(device)
    if found is None:
        hint = "" if os.geteuid() == 0 else "; as root more can be said"
        return {"state": "unknown", "why": f"nobody answers for it{hint}"}
    if not found:
        return {"state": "dead", "why": "its server is gone, and readers get ENOTCONN"}
    serving = [pid for pid in found if pid != _INIT]
    if not serving:
        return {"state": "kept", "why": "the service manager keeps it for the next start, and readers wait"}
    stopped = [pid for pid in serving if (process := look_at(pid)) and process.state in ("T", "t")]
    if stopped:
        return {"state": "stopped", "why": f"process {stopped[0]} was stopped by a signal"}
    return {
        "state": "alone",
        "why": f"process {serving[0]} serves it without a supervisor, and tells nothing",
    }


def _blank(mount: Mount, presenter: str | None) -> Document:
    return {
        "mountpoint": mount.path,
        "device": mount.device,
        "source": mount.checkpoint,
        "presenter": presenter,
    }
