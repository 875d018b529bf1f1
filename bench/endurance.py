"""Whether a server grows: many opens of one mount, and many mounts of one process."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mounts import family, serving, wait
from remapfs import Rules, make_plan, read_checkpoint
from remapfs.present.fuse import serve
from remapfs.present.options import MountOptions

if TYPE_CHECKING:
    from collections.abc import Iterator

_STEPS: Final = 6
_HEADER: Final = b'{"a":{"dtype":"U8","shape":[8192],"data_offsets":[0,8192]}}'


@dataclass(frozen=True, slots=True)
class _Size:
    """How big processes are together: bytes that are theirs alone, descriptors, threads."""

    private: int
    descriptors: int
    threads: int


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--opens", type=int, default=24_000, help="open, read, close")
    parser.add_argument("--mounts", type=int, default=1_000, help="mount, serve, unmount")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="remapfs-bench-") as made:
        source, mountpoint = Path(made).resolve() / "source", Path(made).resolve() / "mount"
        source.mkdir()
        mountpoint.mkdir()
        (source / "model.safetensors").write_bytes(
            len(_HEADER).to_bytes(8, "little") + _HEADER + os.urandom(8192)
        )
        print("| | private MB | descriptors | threads |\n|---|--:|--:|--:|")
        for count, size in _opens(source, mountpoint, options.opens):
            _print(f"{count:,} opens", size)
        for count, size in _mounts(source, mountpoint, options.mounts):
            _print(f"{count:,} mounts", size)


def _opens(source: Path, mountpoint: Path, count: int) -> Iterator[tuple[int, _Size]]:
    command = [sys.executable, "-m", "remapfs", "mount", str(source), str(mountpoint)]
    with serving(command, mountpoint) as process:
        wait(process, mountpoint)
        path = mountpoint / "model.safetensors"
        for number in range(count + 1):
            descriptor = os.open(path, os.O_RDONLY)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.pread(descriptor, 4096, 0)
            os.close(descriptor)
            if number % max(count // _STEPS, 1) == 0:
                yield number, _size(family(process.pid))


def _mounts(source: Path, mountpoint: Path, count: int) -> Iterator[tuple[int, _Size]]:
    plan = make_plan(read_checkpoint(str(source)), Rules("none")).without_names()

    def ready() -> None:
        # Not in this process: it holds the mount, and must not wait for what it serves.
        subprocess.run(["cat", mountpoint / "model.safetensors"], stdout=subprocess.DEVNULL, check=True)
        os.kill(os.getpid(), signal.SIGTERM)

    for number in range(count + 1):
        serve(plan, str(mountpoint), MountOptions(), ready)
        if number % max(count // _STEPS, 1) == 0:
            yield number, _size([os.getpid()])


def _size(pids: list[int]) -> _Size:
    private = 0
    for pid in pids:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8").splitlines()
        private += sum(int(line.split()[1]) << 10 for line in lines if line.startswith("Private_"))
    return _Size(
        private,
        sum(len(list(Path(f"/proc/{pid}/fd").iterdir())) for pid in pids),
        sum(len(list(Path(f"/proc/{pid}/task").iterdir())) for pid in pids),
    )


def _print(what: str, size: _Size) -> None:
    print(f"| {what} | {size.private / 1e6:.2f} | {size.descriptors} | {size.threads} |", flush=True)


if __name__ == "__main__":
    assert threading.active_count() == 1  # noqa: S101 - serve forks
    main()
