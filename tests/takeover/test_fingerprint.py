"""Two plans have one fingerprint only if a kernel could not tell them apart."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from present.plans import plan_of
from remapfs.present.fuse.fingerprint import fingerprint

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Make a directory of one file, with a fixed time."""
    root = tmp_path / "root"
    root.mkdir()
    (root / "model.bin").write_bytes(bytes(100))
    os.utime(root, ns=(0, 0))
    return root


def test_a_plan_that_is_made_again_is_the_same(folder: Path) -> None:
    """From the same directory, untouched."""
    assert fingerprint(plan_of(folder)) == fingerprint(plan_of(folder))


@pytest.mark.parametrize(
    "change",
    [
        lambda root: (root / "model.bin").chmod(0o400),
        lambda root: os.utime(root / "model.bin", ns=(0, 1)),
        lambda root: os.truncate(root / "model.bin", 99),
        lambda root: (root / "model.bin").rename(root / "model2.bin"),
        lambda root: (root / "another").touch(),
        lambda root: root.chmod(0o700),
    ],
    ids=["mode", "time", "size", "name", "file", "directory"],
)
def test_every_difference_counts(folder: Path, change: Callable[[Path], object]) -> None:
    """In names, attributes, and the identity of sources."""
    before = fingerprint(plan_of(folder))
    change(folder)
    assert fingerprint(plan_of(folder)) != before
