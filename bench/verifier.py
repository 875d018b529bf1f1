"""A program that reads one file of a mount again and again, compares its SHA-256, and times every step.

It says `ready`, begins at the first line of stdin, stops when stdin ends, and prints one line of JSON.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import select
import sys
import time
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

WAYS: Final = ("read", "mmap", "direct", "names")
_MIB: Final = 1 << 20
# Shorter steps are no stall.
_WORTH_TELLING: Final = 1e-3


@dataclass(slots=True)
class Verdict:
    """What a reader saw: right and wrong rounds, errors, and (start, end) of slow steps."""

    right: int = 0
    wrong: int = 0
    errors: list[str] = field(default_factory=list)
    steps: list[tuple[float, float]] = field(default_factory=list)


def _read(path: str, buffer: mmap.mmap, verdict: Verdict, *, flags: int = 0) -> Iterator[bytes]:
    descriptor = os.open(path, os.O_RDONLY | flags)
    try:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        offset = 0
        while True:
            begin = time.monotonic()
            got = os.preadv(descriptor, [buffer], offset)
            _note(verdict, begin)
            if not got:
                return
            offset += got
            yield buffer[:got]
    finally:
        os.close(descriptor)


def _map(path: str, verdict: Verdict) -> Iterator[bytes]:
    with open(path, "rb") as stream:
        os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        mapped = mmap.mmap(stream.fileno(), 0, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ)
    with mapped:
        for start in range(0, len(mapped), _MIB):
            begin = time.monotonic()
            piece = mapped[start : start + _MIB]
            _note(verdict, begin)
            yield piece


def _names(path: str, number: int, verdict: Verdict) -> Iterator[bytes]:
    """List the directory, look up a name that exists and one that nobody has asked for yet."""
    directory = os.path.dirname(path)
    begin = time.monotonic()
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        names = sorted(os.listdir(descriptor))
    finally:
        os.close(descriptor)
    os.statvfs(directory)
    size = os.stat(path).st_size
    missing = not os.path.exists(f"{directory}/missing-{os.getpid()}-{number}")
    _note(verdict, begin)
    yield json.dumps([names, size, missing]).encode()


def _pieces(way: str, path: str, number: int, buffer: mmap.mmap, verdict: Verdict) -> Iterator[bytes]:
    match way:
        case "read":
            return _read(path, buffer, verdict)
        case "direct":
            return _read(path, buffer, verdict, flags=os.O_DIRECT)
        case "mmap":
            return _map(path, verdict)
        case _:
            return _names(path, number, verdict)


def _note(verdict: Verdict, begin: float) -> None:
    end = time.monotonic()
    if end - begin > _WORTH_TELLING:
        verdict.steps.append((begin, end))


def _stopped() -> bool:
    return bool(select.select([sys.stdin], [], [], 0)[0])


def main() -> None:
    """Read the file that the command line names in the way it names, against the hash it names."""
    way, path, wanted = sys.argv[1:]
    verdict, number = Verdict(), 0
    # Anonymous memory is aligned, as O_DIRECT demands.
    buffer = mmap.mmap(-1, _MIB)
    print("ready", flush=True)
    sys.stdin.readline()
    while not _stopped():
        found, number = hashlib.sha256(), number + 1
        try:
            for piece in _pieces(way, path, number, buffer, verdict):
                found.update(piece)
        except OSError as error:
            verdict.errors.append(f"{way}: {error}")
            continue
        if found.hexdigest() == wanted:
            verdict.right += 1
        else:
            verdict.wrong += 1
    print(json.dumps(asdict(verdict)))


if __name__ == "__main__":
    main()
