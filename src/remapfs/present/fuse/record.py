"""What lies beside a mount's descriptor that a service manager keeps: what it shows, and who serves it."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

RECORD_NAME: Final = "remapfs-record"
SERVER_NAME: Final = b"remapfs-server"
# Behind the text, which is a line of JSON.
_HOLDER_AT: Final = 1 << 16
_HOLDER_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class Record:
    """Where the mount is, as which device, whom it lets in, and a digest of the plan."""

    path: str
    device: str
    allow_other: bool
    fingerprint: str


def write(record: Record) -> int:
    """Write a record into a file without a name, and return its descriptor."""
    descriptor = os.memfd_create(RECORD_NAME)
    os.pwrite(descriptor, json.dumps(asdict(record)).encode() + b"\n", 0)
    return descriptor


def read(descriptor: int) -> Record | None:
    """Read a record; None if there is none, or none that can be read."""
    if descriptor < 0:
        return None
    try:
        line, _, _ = os.pread(descriptor, _HOLDER_AT, 0).partition(b"\n")
        return Record(**json.loads(line))
    except (OSError, ValueError, TypeError):
        return None


def hold(descriptor: int) -> None:
    """Note that this process serves the mount; it holds the lock."""
    os.pwrite(descriptor, str(os.getpid()).encode().ljust(_HOLDER_BYTES), _HOLDER_AT)


def holder(descriptor: int) -> int | None:
    """Give the server that was noted last, if it lives; another process may have its number by now."""
    text = os.pread(descriptor, _HOLDER_BYTES, _HOLDER_AT).strip()
    try:
        name = Path(f"/proc/{int(text)}/comm").read_bytes().strip()
    except (ValueError, OSError):
        return None
    return int(text) if name == SERVER_NAME else None
