"""What a measurement was made on."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path


def describe(directory: Path) -> dict[str, str]:
    """Describe the machine, the file system that holds `directory`, and the versions of what is compared."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "kernel": f"{platform.system()} {platform.release()}",
        "cpu": _cpu(),
        "cores": str(os.cpu_count()),
        "load before": f"{os.getloadavg()[0]:.1f}",
        "memory": f"{memory / 1e9:.1f} GB",
        "file system": _file_system(directory),
        "python": platform.python_version(),
        "remapfs": _package("remapfs"),
        "fusepy": _package("fusepy"),
        "bindfs": _bindfs(),
    }


def _cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith(("model name", "Model")):
            return line.partition(":")[2].strip()
    return platform.machine()


def _file_system(directory: Path) -> str:
    device = directory.stat().st_dev
    wanted = f"{os.major(device)}:{os.minor(device)}"
    for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines():
        before, _, after = line.partition(" - ")
        if before.split()[2] == wanted:
            kind, source, _ = after.split(" ", 2)
            return f"{kind} on {source}"
    return "unknown"


def _package(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "from the source tree" if name == "remapfs" else "missing"


def _bindfs() -> str:
    if shutil.which("bindfs") is None:
        return "missing"
    return subprocess.run(["bindfs", "-V"], capture_output=True, text=True, check=True).stdout.strip()
