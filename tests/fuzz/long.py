"""Fuzzes for long, and keeps what fails: `python tests/fuzz/long.py SECONDS [TARGET…]`.

Needs `tests` on PYTHONPATH. Each target runs in a process of its own, which is told the seed, and is started
anew where an input ended it. A failing input is written to the target's corpus under the name of its error.
"""

from __future__ import annotations

import hashlib
import os
import random
import resource
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from fuzz.mutating import CORPUS, kept, mutate
from fuzz.targets import TARGETS

if TYPE_CHECKING:
    from collections.abc import Sequence

_HANGS_AFTER = 20
_MEMORY = 2 << 30


def main() -> int:
    """Fuzz, and say what came of it; 1 where something failed."""
    seconds, names = float(sys.argv[1]), sys.argv[2:] or list(TARGETS)
    failed = False
    for name in names:
        end = time.monotonic() + seconds / len(names)
        while time.monotonic() < end:
            last = Path(f"/dev/shm/remapfs-fuzz-{os.getpid()}")  # noqa: S108  # read after a crash
            child = os.fork()
            if not child:
                _fuzz(name, end, last)
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            if status < 0:
                _keep(name, signal.Signals(-status).name, last.read_bytes())
            failed |= status != 0
            last.unlink(missing_ok=True)
    return int(failed)


def _fuzz(name: str, end: float, last: Path) -> NoReturn:
    inputs = kept(name)
    seed = time.time_ns()
    chance = random.Random(seed)  # noqa: S311  # reproducible is what it must be
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    begin, runs, slowest, found = time.monotonic(), 0, 0.0, 0
    with TARGETS[name]() as run, last.open("wb", buffering=0) as note:
        while time.monotonic() < end and found < 20:
            data = _next(chance, inputs)
            note.seek(0)
            note.truncate()
            note.write(data)
            signal.alarm(_HANGS_AFTER)
            started = time.monotonic()
            try:
                run(data)
            except BaseException as error:  # noqa: BLE001  # whatever it is, it is a finding
                traceback.print_exc()
                _keep(name, type(error).__name__, data)
                found += 1
            slowest = max(slowest, time.monotonic() - started)
            runs += 1
        signal.alarm(0)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    print(  # noqa: T201  # its report
        f"{name}: seed {seed}, {runs:,} inputs in {time.monotonic() - begin:.0f} s, {found} failed, "
        f"the slowest took {slowest * 1e3:.0f} ms, at most {memory:,} MiB",
        flush=True,
    )
    os._exit(found != 0)


def _next(chance: random.Random, inputs: Sequence[bytes]) -> bytes:
    return mutate(chance, inputs) if chance.random() < 0.95 else chance.randbytes(chance.randint(0, 300))


def _keep(name: str, error: str, data: bytes) -> None:
    path = CORPUS / name / f"{error}-{hashlib.sha256(data).hexdigest()[:8]}"
    path.write_bytes(data)
    print(f"{name}: {error}, kept as {path}", flush=True)  # noqa: T201  # its report


if __name__ == "__main__":
    sys.exit(main())
