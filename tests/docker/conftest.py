"""A Docker engine, a checkpoint, and the directory that hosts and containers share."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from docker_checkpoint import Checkpoint, write_checkpoint
from docker_engine import Engine, engine, shared_directory
from mounting import missing

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="session")
def docker() -> Iterator[Engine]:
    """Run one engine for all tests; only if told so, as it has to be root's and changes cgroups."""
    program = os.environ.get("REMAPFS_DOCKERD")
    if not program:
        pytest.skip("REMAPFS_DOCKERD is not set")
    reason = missing()
    if reason:
        pytest.skip(reason)
    with engine(program) as made:
        made.import_busybox()
        yield made


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    """Write one checkpoint for all tests, which only read it."""
    return write_checkpoint(tmp_path_factory.mktemp("checkpoint"))


@pytest.fixture
def models(docker: Engine) -> Iterator[Path]:
    """Make the parent of mount points, as /mnt/models on a host, with an empty mount point."""
    del docker  # only where there is one
    with shared_directory() as path:
        (path / "v4").mkdir()
        yield path
