"""Each situation of tests/cases looks through a mount as the Python reader says."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

import pytest

from mounting import PRESENTERS, missing, mounted
from remapfs import open_file
from situations import Situation, situations

if TYPE_CHECKING:
    from pathlib import Path

CASES = situations("cases")


@pytest.mark.parametrize("presenter", PRESENTERS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.folder.name)
def test_the_mount_shows_the_plan(case: Situation, presenter: str, tmp_path: Path) -> None:
    """Every directory and file of the plan is there, regular, with its bytes, and nothing else."""
    reason = missing(presenter)
    if reason:
        pytest.skip(reason)
    source = case.make(tmp_path)
    plan = case.plan(source)
    with mounted(source, case.arguments, presenter) as mountpoint:
        found = {}
        for folder, _, names in os.walk(mountpoint):
            for name in names:
                path = os.path.join(folder, name)
                status = os.lstat(path)
                assert stat.S_ISREG(status.st_mode)
                with open(path, "rb") as stream:
                    found[os.path.relpath(path, mountpoint)] = stream.read()
                assert status.st_size == len(found[os.path.relpath(path, mountpoint)])
        folders = {os.path.relpath(folder, mountpoint) for folder, _, _ in os.walk(mountpoint)}
    assert found == {file.path: open_file(file).read() for file in plan.files}
    assert folders == {directory.path or "." for directory in plan.directories}
