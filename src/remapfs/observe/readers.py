"""Which processes have files of a mount open, and which hold its descriptor: from /proc alone.

No file of the mount is touched, so a server that does not answer makes nobody wait.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_MOUNT_ID: Final = re.compile(rb"^mnt_id:\s*(\d+)$", re.MULTILINE)
_CONNECTION: Final = re.compile(r"^fuse_connection:\s*(\d+)$", re.MULTILINE)
_MAPPED: Final = re.compile(r"^\S+ \S+ \S+ ([0-9a-f]+):([0-9a-f]+) \d+\s*(.*)$", re.MULTILINE)
_DEVICE: Final = "/dev/fuse"
_HOST: Final = "pid:[4026531836]"  # PROC_PID_INIT_INO of include/uapi/linux/nsfs.h
# Files with these names are none of a mount.
_OTHERS: Final = ("/dev/", "/proc/", "/sys/", "/memfd:")
_MOST_FILES: Final = 8
_SECONDS: Final = 5.0
# pos, flags and mnt_id come first.
_FDINFO_BYTES: Final = 256


@dataclass(frozen=True, slots=True)
class Reader:
    """A process that reads: how often it has files open and mapped, and the names of some of them."""

    pid: int
    command: str
    open: int
    mapped: int
    files: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Readers:
    """The readers that were found; `unseen` processes could not be looked into, as they are others'."""

    found: tuple[Reader, ...]
    unseen: int


@dataclass(slots=True)
class _Namespaces:
    """The ids that a device's mounts have, in each mount namespace that was met."""

    device: str
    known: dict[str, frozenset[str]] = field(default_factory=dict)

    def ids(self, pid: str) -> frozenset[str]:
        """Give them for the namespace of a process."""
        namespace = os.readlink(f"/proc/{pid}/ns/mnt")
        if namespace not in self.known:
            lines = Path(f"/proc/{pid}/mountinfo").read_text(errors="replace").splitlines()
            fields = (line.split(" ", 3) for line in lines)
            self.known[namespace] = frozenset(each[0] for each in fields if each[2] == self.device)
        return self.known[namespace]


def readers(device: str) -> Readers | None:
    """Find who has files of the mount with this device open or mapped; None if that took too long.

    The kernel keeps who asks for a process's maps waiting while that process changes them, and a process
    may be doing so as it waits for the mount.
    """
    return _in_time(lambda: _readers(device))


def holders(device: str) -> tuple[int, ...] | None:
    """Find the processes that hold the descriptor of a FUSE mount; None if that cannot be told.

    It takes root, the host's view of processes, and, where other FUSE mounts are served, a kernel that says
    which connection a descriptor belongs to.
    """
    if os.geteuid() != 0:
        return None
    connection = device.rpartition(":")[2]
    found, told, untold = [], False, False
    for pid in _pids():
        try:
            for number, target in _descriptors(pid):
                if target == _DEVICE:
                    match = _CONNECTION.search(Path(f"/proc/{pid}/fdinfo/{number}").read_text())
                    told, untold = told or match is not None, untold or match is None
                    found += [int(pid)] if match and match[1] == connection else []
        except OSError:
            continue
    if not found and ((untold and not told) or os.readlink("/proc/self/ns/pid") != _HOST):
        return None
    return tuple(dict.fromkeys(found))


def _readers(device: str) -> Readers:
    namespaces, unseen, found = _Namespaces(device), 0, []
    major, minor = (int(number) for number in device.split(":"))
    for pid in _pids():
        try:
            ids = namespaces.ids(pid)
            opened = [
                target
                for number, target in _descriptors(pid)
                if target.startswith("/") and not target.startswith(_OTHERS) and _is_on(pid, number, ids)
            ]
            mapped = [
                path
                for high, low, path in _MAPPED.findall(Path(f"/proc/{pid}/maps").read_text(errors="replace"))
                if (int(high, 16), int(low, 16)) == (major, minor)
            ]
            command = Path(f"/proc/{pid}/comm").read_text(errors="replace").strip()
        except PermissionError:
            unseen += 1
            continue
        except OSError:
            continue
        if opened or mapped:
            names = sorted({os.path.basename(path) for path in (*opened, *mapped)})
            found.append(Reader(int(pid), command, len(opened), len(mapped), tuple(names[:_MOST_FILES])))
    return Readers(tuple(found), unseen)


def _pids() -> Iterator[str]:
    return (name for name in os.listdir("/proc") if name.isdecimal())


def _descriptors(pid: str) -> Iterator[tuple[str, str]]:
    for number in os.listdir(f"/proc/{pid}/fd"):
        try:
            yield number, os.readlink(f"/proc/{pid}/fd/{number}")
        except FileNotFoundError:
            continue


def _is_on(pid: str, number: str, ids: frozenset[str]) -> bool:
    # Not by Path or open: a host may have a hundred thousand files open.
    try:
        descriptor = os.open(f"/proc/{pid}/fdinfo/{number}", os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        match = _MOUNT_ID.search(os.read(descriptor, _FDINFO_BYTES))
    finally:
        os.close(descriptor)
    return match is not None and match[1].decode() in ids


def _in_time(look: Callable[[], Readers]) -> Readers | None:
    found: list[Readers] = []
    thread = Thread(target=lambda: found.append(look()), name="readers", daemon=True)
    thread.start()
    thread.join(_SECONDS)
    return found[0] if found else None
