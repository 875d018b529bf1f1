"""A program that reads files in one of three ways and says how long it took.

It says `ready` on stdout, begins at the first line of stdin, and prints one line of JSON.
"""

from __future__ import annotations

import json
import mmap
import os
import resource
import subprocess
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

MIB: Final = 1 << 20
_STEP: Final = {"read": MIB, "mmap": MIB, "direct": 8 * MIB}


@dataclass(frozen=True, slots=True)
class Reading:
    """What one or more readers did together: bytes, seconds from first start to last end, and CPU seconds."""

    size: int
    seconds: float
    cpu: float


def run(way: str, groups: Sequence[Sequence[Path]]) -> Reading:
    """Read each group of files in one of the three ways, all at once."""
    return start([sys.executable, "-I", __file__, way], groups)


def start(command: Sequence[str], groups: Sequence[Sequence[Path]]) -> Reading:
    """Start a reader for each group of files, let all begin at once and wait for all."""
    with ExitStack() as stack:
        readers = []
        for group in groups:
            reader = subprocess.Popen(
                [*command, *map(str, group)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
            stack.callback(reader.kill)
            stack.enter_context(reader)
            readers.append(reader)
        pipes = [(reader.stdin, reader.stdout) for reader in readers if reader.stdin and reader.stdout]
        for _, answers in pipes:
            answers.readline()
        for orders, _ in pipes:
            orders.write("go\n")
            orders.flush()
        results = [json.loads(answers.read()) for _, answers in pipes]
    return Reading(
        sum(result["size"] for result in results),
        (max(result["end"] for result in results) - min(result["start"] for result in results)) / 1e9,
        sum(result["cpu"] for result in results),
    )


def _read(path: str, buffer: mmap.mmap) -> int:
    total = 0
    with open(path, "rb", buffering=0) as stream:
        while got := stream.readinto(buffer):
            total += got
    return total


def _direct(path: str, buffer: mmap.mmap) -> int:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECT)
    total = 0
    try:
        while got := os.preadv(descriptor, [buffer], total):
            total += got
    finally:
        os.close(descriptor)
    return total


def _map(path: str, buffer: mmap.mmap) -> int:
    with open(path, "rb") as stream:
        mapped = mmap.mmap(stream.fileno(), 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ)
    total = len(mapped)
    with mapped, memoryview(mapped) as view, memoryview(buffer) as target:
        for start in range(0, total, len(buffer)):
            piece = view[start : start + len(buffer)]
            target[: len(piece)] = piece
            piece.release()
    return total


_WAYS: Final = {"read": _read, "mmap": _map, "direct": _direct}


def main() -> None:
    """Read the files that the command line names."""
    way, *paths = sys.argv[1:]
    # Anonymous memory is aligned, as O_DIRECT demands, and one buffer is used again and again.
    buffer = mmap.mmap(-1, _STEP[way])
    buffer.write(bytes(len(buffer)))
    print("ready", flush=True)
    sys.stdin.readline()
    before = resource.getrusage(resource.RUSAGE_SELF)
    start = time.monotonic_ns()
    size = sum(_WAYS[way](path, buffer) for path in paths)
    end = time.monotonic_ns()
    after = resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(json.dumps({"size": size, "start": start, "end": end, "cpu": cpu}))


if __name__ == "__main__":
    main()
