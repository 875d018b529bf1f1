"""What is told about a mount: one document from its counters and its processes."""

from __future__ import annotations

import hashlib
import json
import signal
from dataclasses import dataclass
from datetime import UTC, datetime
from time import time
from typing import TYPE_CHECKING, Any, Final

from remapfs.plan.extents import Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from remapfs.observe.counters import Counts, LastEnd
    from remapfs.plan.model import Plan

Document = dict[str, Any]
"""What JSON can carry; its keys are described in SEMANTICS.md."""

SERVING: Final = "serving"
# A server shows life every second, or it does not get to run.
_SILENT_SECONDS: Final = 5.0
# Longer than any disk takes: each thread waits for a source that does not answer.
_BUSY_SECONDS: Final = 10.0
_DIGEST_LENGTH: Final = 16
_STOPPED: Final = ("T", "t")


@dataclass(frozen=True, slots=True)
class About:
    """What does not change while a mount lasts.

    `rules` is how many there are, `metrics` an address or empty.
    """

    mountpoint: str
    device: str
    source: str
    presenter: str
    version: str
    rules: int
    digest: str
    metrics: str = ""

    def document(self) -> Document:
        """Give it as JSON has it."""
        return {
            "mountpoint": self.mountpoint,
            "device": self.device,
            "source": self.source,
            "presenter": self.presenter,
            "version": self.version,
            "rules": {"count": self.rules, "digest": self.digest},
            "metrics": self.metrics or None,
        }


@dataclass(frozen=True, slots=True)
class Rate:
    """Bytes a second, over the last `seconds`."""

    bytes_per_second: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Process:
    """A process of a mount: `state` is its letter in /proc, `memory` its proportional share in bytes."""

    pid: int
    state: str
    memory: int | None


def rules_digest(plan: Plan) -> str:
    """Hash the rules and every byte that they made remapfs write; 16 hexadecimal digits.

    Two mounts of one checkpoint have the same digest if they show the same names.
    """
    digest = hashlib.sha256(json.dumps([hits.text for hits in plan.rules]).encode())
    for file in plan.files:
        for extent in file.extents:
            if isinstance(extent, Literal):
                digest.update(f"\0{file.path}\0{extent.length}\0".encode(errors="surrogateescape"))
                digest.update(extent.data)
    return digest.hexdigest()[:_DIGEST_LENGTH]


def how(code: int) -> str:
    """Say in words how a process ended; a signal's number is below 0."""
    return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"


def report(about: About, counts: Counts, rate: Rate, processes: Mapping[str, Process]) -> Document:
    """Put together what `remapfs status` shows."""
    state, why = state_of(counts, processes.get("server"))
    now = time()
    memory = [each.memory for each in processes.values() if each.memory is not None]
    return {
        **about.document(),
        "state": state,
        "why": why,
        "since": _moment(now - counts.uptime),
        "uptime": round(counts.uptime, 3),
        "generations": counts.generations,
        "last_end": _end(counts.last_end),
        "reads": counts.reads,
        "read_bytes": counts.read_bytes,
        "rate": {
            "now": round(rate.bytes_per_second),
            "seconds": round(rate.seconds, 1),
            "overall": round(counts.read_bytes / max(counts.uptime, 1e-9)),
        },
        "last_read": None if counts.last_read is None else _moment(now - counts.last_read),
        "waiting": round(max(counts.in_hand, default=0.0), 3),
        "requests": dict(counts.requests),
        "errors": dict(counts.errors),
        "failure": _failure(counts.failure),
        "processes": {
            name: {"pid": each.pid, "memory": each.memory} for name, each in sorted(processes.items())
        },
        "memory": sum(memory) if memory else None,
    }


def state_of(counts: Counts, server: Process | None) -> tuple[str, str]:
    """Say in a word whether readers are served, and why not."""
    if counts.server is None or server is None:
        return "restarting", "there is no server at this moment"
    if server.state in _STOPPED:
        return "stopped", f"the server (pid {server.pid}) was stopped by a signal: kill -CONT {server.pid}"
    if counts.beat is None:
        return "starting", f"the server (pid {server.pid}) does not serve yet"
    if counts.beat > _SILENT_SECONDS:
        return "silent", f"the server (pid {server.pid}) has not run for {counts.beat:.0f} s"
    if len(counts.in_hand) == counts.threads and min(counts.in_hand) > _BUSY_SECONDS:
        waiting = min(counts.in_hand)
        return "waiting", f"every thread of the server has waited for its source for {waiting:.0f} s"
    return SERVING, ""


def _end(end: LastEnd | None) -> Document | None:
    return None if end is None else {"how": how(end.code), "seconds_ago": round(end.ago, 1)}


def _failure(failure: Mapping[str, object] | None) -> Document | None:
    if not failure:
        return None
    moment = failure.get("time")
    when = _moment(moment) if isinstance(moment, float) else None
    return {key: failure.get(key) for key in ("file", "cause", "offset", "text")} | {"time": when}


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
