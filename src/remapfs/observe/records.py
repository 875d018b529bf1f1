"""What is kept about a mount that no process serves, for whoever asks later."""

from __future__ import annotations

import contextlib
import json
import os
from datetime import UTC, datetime
from time import monotonic
from typing import TYPE_CHECKING

from remapfs.observe.place import SYSTEM, record_path
from remapfs.present.mountpoint import mounts
from remapfs.present.options import LOGGER

if TYPE_CHECKING:
    from remapfs.observe.report import About, Document
    from remapfs.present.mountpoint import Mount

_DIRECTORY_MODE, _FILE_MODE = 0o755, 0o600


def keep_record(about: About) -> None:
    """Write down what is mounted; a host that has no place for it is told of in the log, and nothing else."""
    path = record_path(SYSTEM, about.device)
    told = {
        **about.document(),
        "since": datetime.now(UTC).isoformat(timespec="seconds"),
        "began": monotonic(),
    }
    made = f"{path}.{os.getpid()}"
    try:
        os.makedirs(SYSTEM, mode=_DIRECTORY_MODE, exist_ok=True)
        with open(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _FILE_MODE), "w") as stream:
            json.dump(told, stream)
        os.rename(made, path)
        _forget_others()
    except OSError as error:
        LOGGER.warning("remapfs status will know little of this mount: %s", error)
        with contextlib.suppress(OSError):
            os.unlink(made)


def _forget_others() -> None:
    """Remove the records of mounts that have ended."""
    devices = {mount.device for mount in mounts()}
    for name in os.listdir(SYSTEM):
        device, _, kind = name.rpartition(".")
        if kind == "json" and device not in devices:
            os.unlink(os.path.join(SYSTEM, name))


def record_of(mount: Mount) -> Document:
    """Read what is known of a mount; empty if that is nothing, or of an earlier mount."""
    try:
        with open(record_path(SYSTEM, mount.device), "rb") as stream:
            told = json.load(stream)
        # A device's number is used again after an unmount.
        if (told["mountpoint"], told["source"]) != (mount.path, mount.checkpoint):
            return {}
        return {**told, "uptime": round(monotonic() - told.pop("began"), 3)}
    except (OSError, ValueError, TypeError, KeyError):
        return {}
