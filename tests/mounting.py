"""A mount for a test, made by the command line as a user makes it."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from remapfs.errors import RemapError
from remapfs.present.erofs.backing import choose
from remapfs.present.erofs.guards import check_kernel, check_user

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PRESENTERS = ("fuse", "fusepy", "erofs")


def missing(presenter: str = "fuse") -> str | None:
    """Say what this host lacks for mounting with a presenter, or None."""
    if presenter == "erofs":
        try:
            check_user()
            check_kernel()
            choose(0, None, None)
        except RemapError as error:
            return f"EROFS cannot be mounted here: {error}"
        return None
    try:
        os.close(os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC))
    except OSError as error:
        return f"/dev/fuse cannot be used here: {error.strerror}"
    if os.geteuid() != 0 and shutil.which("fusermount3") is None:
        return "fusermount3 is not installed"
    if presenter == "fusepy":
        try:
            importlib.import_module("fuse")
        except (ImportError, OSError) as error:
            return f"libfuse 2 is not installed: {error}"
    return None


def remapfs(*arguments: str | Path, **options: object) -> subprocess.CompletedProcess[str]:
    """Run the command line."""
    command = [sys.executable, "-m", "remapfs", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, **options)  # type: ignore[call-overload, no-any-return]  # options are passed on


@contextmanager
def mounted(source: Path, arguments: Sequence[str] = (), presenter: str = "fuse") -> Iterator[Path]:
    """Mount `source` in the background, and unmount it at the end."""
    mountpoint = Path(tempfile.mkdtemp(prefix="remapfs-test-"))
    try:
        run = remapfs("mount", source, mountpoint, *arguments, "--presenter", presenter, "--background")
        assert run.returncode == 0, run.stderr
        try:
            yield mountpoint
        finally:
            run = remapfs("umount", mountpoint)
            assert run.returncode == 0, run.stderr
    finally:
        mountpoint.rmdir()
