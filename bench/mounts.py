"""The file systems that are compared: each mounted by a process of its own, and gone afterwards."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from ctypes.util import find_library
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from remapfs import RemapError
from remapfs.present.erofs.guards import check_kernel, check_user

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PLAIN: Final = "plain fusepy"
_PATIENCE: Final = 60.0
_POLL: Final = 0.005
_TICKS: Final = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Subject:
    """One way to see the checkpoint: the directory it is seen in, and the process that serves it, if any."""

    name: str
    directory: Path
    server: int | None = None

    def shards(self) -> list[Path]:
        """List the shards, sorted by name."""
        return sorted(self.directory.glob("*.safetensors"))

    def cpu(self) -> float:
        """Add up the CPU seconds that the server and its children have used; 0 without a server."""
        if self.server is None:
            return 0.0
        return sum(_cpu(pid) for pid in family(self.server))


def family(pid: int) -> list[int]:
    """List a process and all its descendants."""
    found = [pid]
    for each in found:
        for task in Path(f"/proc/{each}/task").glob("*/children"):
            # A thread or process may end between two looks.
            with suppress(FileNotFoundError, ProcessLookupError):
                found += [int(child) for child in task.read_text().split()]
    return found


def remapfs(source: Path, mountpoint: Path, presenter: str) -> list[str]:
    """Make the command that mounts `source` through remapfs and stays in the foreground."""
    options = ["--preset", "deepseek-v4", "--presenter", presenter, "--private"]
    return [sys.executable, "-m", "remapfs", "mount", str(source), str(mountpoint), *options]


def available() -> dict[str, str]:
    """Say for each file system why it cannot be compared here; the empty string if it can."""
    device = "" if os.access("/dev/fuse", os.R_OK | os.W_OK) else "/dev/fuse cannot be opened"
    fusepy = "" if importlib.util.find_spec("fuse") else "the fusepy package is not installed"
    libfuse = "" if find_library("fuse") else "libfuse 2 is not installed"
    bindfs = "" if shutil.which("bindfs") else "bindfs is not installed"
    mergerfs = "" if shutil.which("mergerfs") else "mergerfs is not installed"
    package = device or fusepy or libfuse
    return {
        "erofs": _why_no_erofs(),
        "fuse": device,
        "fusepy": package,
        PLAIN: package,
        "bindfs": device or bindfs,
        "mergerfs": device or mergerfs,
    }


def _why_no_erofs() -> str:
    try:
        check_user()
        check_kernel()
    except RemapError as error:
        return error.message
    return ""


@contextmanager
def mounted(name: str, source: Path, mountpoint: Path) -> Iterator[Subject]:
    """Mount `source` at `mountpoint`, which is made, and leave neither a mount nor a process behind."""
    mountpoint.mkdir()
    if name == "bindfs":
        command = ["bindfs", "-f", "-r", str(source), str(mountpoint)]
    elif name == "mergerfs":
        options = "ro,cache.files=auto-full,fsname=mergerfs"
        command = ["mergerfs", "-f", "-o", options, str(source), str(mountpoint)]
    elif name == PLAIN:
        program = Path(__file__).with_name("plain_fusepy.py")
        command = [sys.executable, str(program), str(source), str(mountpoint)]
    else:
        command = remapfs(source, mountpoint, name)
    with serving(command, mountpoint) as process:
        wait(process, mountpoint)
        yield Subject(name, mountpoint, process.pid)


@contextmanager
def serving(command: Sequence[str], mountpoint: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a server, and see that it has ended and that nothing is mounted at `mountpoint` afterwards."""
    log = mountpoint.with_name(f"{mountpoint.name}.log")
    with (
        log.open("w+b") as output,
        # Ctrl-C must not reach the server before this program has put its readers away.
        subprocess.Popen(command, start_new_session=True, stdout=output, stderr=output) as process,
    ):
        try:
            yield process
        except BaseException:
            if process.poll() is not None:
                sys.stderr.write(log.read_text(encoding="utf-8", errors="replace"))
            raise
        finally:
            process.terminate()
            try:
                process.wait(_PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
            if is_mounted(mountpoint):
                subprocess.run(["umount", "-l", mountpoint], check=False)


def wait(process: subprocess.Popen[bytes], mountpoint: Path) -> None:
    """Wait until the mount answers."""
    end = time.monotonic() + _PATIENCE
    while not (is_mounted(mountpoint) and any(mountpoint.iterdir())):
        if process.poll() is not None or time.monotonic() > end:
            raise SystemExit(f"{process.args!r} did not mount {mountpoint}")
        time.sleep(_POLL)


def is_mounted(path: Path) -> bool:
    """Look in mountinfo, which asks the mount itself nothing."""
    wanted = os.fsencode(path).replace(b"\\", rb"\134").replace(b" ", rb"\040")
    lines = Path("/proc/self/mountinfo").read_bytes().splitlines()
    return any(line.split(b" ")[4] == wanted for line in lines)


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS
