"""Each situation of tests/should-fail is refused before a mount, in the words of its stderr.txt."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from situations import Situation, situations

if TYPE_CHECKING:
    from pathlib import Path

CASES = situations("should-fail")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.folder.name)
def test_it_is_refused(case: Situation, tmp_path: Path, pytestconfig: pytest.Config) -> None:
    """Exit code 2, the words of stderr.txt, no traceback, nothing mounted, the mount point untouched."""
    source = case.make(tmp_path / "source")
    mountpoint = tmp_path / "mnt"
    mountpoint.mkdir()
    before = mountpoint.stat()
    command = [sys.executable, "-m", "remapfs", "mount", str(source), str(mountpoint), *case.arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        try:
            stdout, stderr = run.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            # It mounted after all. SIGTERM unmounts, where a kill would leave a dead mount.
            run.terminate()
            raise
    said = stderr.replace(os.path.realpath(source), "SOURCE").replace(str(source), "SOURCE")
    golden = case.folder / "stderr.txt"
    if pytestconfig.getoption("accept"):
        golden.write_text(said, encoding="utf-8")
    assert said == golden.read_text(encoding="utf-8")
    assert said.startswith("error: ")
    assert "\nhint:  " in said
    assert stdout == ""
    assert run.returncode == 2
    assert mountpoint.stat() == before
    assert list(mountpoint.iterdir()) == []
