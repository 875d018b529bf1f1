"""A machine with a real systemd: a Debian root that systemd-nspawn boots, with this Python and remapfs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import remapfs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PATIENCE = 60.0
_PROCESSES = """
import pathlib, sys
for place in pathlib.Path("/proc").glob("[0-9]*"):
    try:
        name = (place / "comm").read_text().strip()
        words = (place / "cmdline").read_bytes().split(b"\\0")
    except OSError:
        continue
    if name in sys.argv[1:] if sys.argv[1:] else name.startswith("remapfs") and b"mount" in words:
        print(place.name)
"""
SHARED = "/shared"
_OPTIONS = (
    "--quiet",
    # Neither machined nor a scope: nothing of the host's service manager is needed.
    "--register=no",
    "--keep-unit",
    "--volatile=overlay",
    "--boot",
    "--bind=/dev/fuse",
    "--capability=all",
    "--console=pipe",
)


@dataclass(frozen=True)
class Machine:
    """A booted machine; `shared` is a directory of the host that it sees at /shared."""

    leader: int
    shared: Path

    def run(
        self, *command: str, check: bool = True, timeout: float = PATIENCE
    ) -> subprocess.CompletedProcess[str]:
        """Run a command there."""
        inside = [
            "nsenter",
            "-t",
            str(self.leader),
            "-a",
            "--",
            "/usr/bin/env",
            "-i",
            f"PATH={self.path()}",
            *command,
        ]
        done = subprocess.run(inside, capture_output=True, text=True, check=False, timeout=timeout)
        if check and done.returncode:
            raise AssertionError(f"{command} exited with {done.returncode}: {done.stdout}{done.stderr}")
        return done

    def python(self, program: str, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a Python program there."""
        return self.run(sys.executable, "-c", program, *arguments, check=check)

    @staticmethod
    def path() -> str:
        """Give the PATH with this environment's commands before the machine's."""
        return f"{Path(sys.executable).parent}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

    def write(self, path: str, text: str) -> None:
        """Write a file there."""
        inside = ["nsenter", "-t", str(self.leader), "-a", "--", "tee", path]
        subprocess.run(inside, input=text, text=True, check=True, stdout=subprocess.DEVNULL)

    def show(self, unit: str, *properties: str) -> dict[str, str]:
        """Give properties of a unit."""
        said = self.run("systemctl", "show", unit, *(f"--property={name}" for name in properties)).stdout
        return dict(line.split("=", 1) for line in said.splitlines())

    def state(self, unit: str) -> str:
        """Give a unit's ActiveState."""
        return self.show(unit, "ActiveState")["ActiveState"]

    def main_pid(self, unit: str) -> int:
        """Give the process that a unit runs, as the machine numbers it."""
        return int(self.show(unit, "MainPID")["MainPID"])

    def journal(self, unit: str) -> str:
        """Give what a unit logged."""
        return self.run("journalctl", "--no-pager", "--output=cat", "-u", unit).stdout

    def processes(self, name: str | None = None) -> list[int]:
        """Give the processes of remapfs there, or those with a name, by their numbers there."""
        said = self.python(_PROCESSES, *([name] if name else [])).stdout
        return [int(number) for number in said.split()]

    def kill(self, *processes: int) -> None:
        """Kill processes as the out-of-memory killer would."""
        self.python("import os, sys\nfor each in sys.argv[1:]: os.kill(int(each), 9)", *map(str, processes))

    def mounted(self, path: str) -> bool:
        """Whether something is mounted there; the mount itself is not asked."""
        lines = self.run("cat", "/proc/self/mountinfo").stdout.splitlines()
        return any(line.split(" ")[4] == path for line in lines)

    def until(self, condition: Callable[[], bool], what: str) -> None:
        """Wait until something is so."""
        end = time.monotonic() + PATIENCE
        while not condition():
            if time.monotonic() > end:
                raise AssertionError(f"{what}: not after {PATIENCE:.0f} s")
            time.sleep(0.1)


@contextmanager
def booted(root: Path, shared: Path) -> Iterator[Machine]:
    """Boot `root`, which stays as it is, and leave no process behind."""
    seen = {Path(sys.prefix), Path(sys.base_prefix).resolve(), Path(remapfs.__file__).parents[1]}
    binds = [f"--bind-ro={path}" for path in sorted(seen)]
    command = ["systemd-nspawn", *_OPTIONS, f"--directory={root}", *binds, f"--bind={shared}:{SHARED}"]
    log = shared / "console.log"
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    try:
        machine = Machine(_leader(process, log), shared)
        machine.until(lambda: _is_up(machine), "the machine is up")
        yield machine
    finally:
        _end(process)


def _leader(process: subprocess.Popen[bytes], log: Path) -> int:
    """Find the machine's first process: a child of systemd-nspawn's that is number 1 in there."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if process.poll() is not None:
            raise AssertionError(f"systemd-nspawn ended: {log.read_text(errors='replace')}")
        for task in Path(f"/proc/{process.pid}/task").glob("*/children"):
            for child in task.read_text().split():
                status = Path(f"/proc/{child}/status").read_text()
                numbers = next(line for line in status.splitlines() if line.startswith("NSpid:")).split()[1:]
                if numbers[-1] == "1" and Path(f"/proc/{child}/comm").read_text() == "systemd\n":
                    return int(child)
        time.sleep(0.05)
    raise AssertionError(f"the machine did not boot: {log.read_text(errors='replace')}")


def _is_up(machine: Machine) -> bool:
    said = machine.run("systemctl", "is-system-running", check=False).stdout.strip()
    return said in ("running", "degraded")


def _end(process: subprocess.Popen[bytes]) -> None:
    # SIGTERM asks the machine to power off; SIGKILL of systemd-nspawn would leave its processes to the host.
    for number in (signal.SIGTERM, signal.SIGTERM):
        if process.poll() is None:
            process.send_signal(number)
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                continue
    if process.poll() is None:
        for task in Path(f"/proc/{process.pid}/task").glob("*/children"):
            for child in task.read_text().split():
                os.kill(int(child), signal.SIGKILL)
        process.wait(PATIENCE)
