"""A Docker engine, a checkpoint, and the directory that hosts and containers share."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from docker_checkpoint import Checkpoint, write_checkpoint
from docker_engine import PYTHON, REMAPFS, VLLM, Engine, engine, shared_directory
from mounting import missing

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]


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
def images(docker: Engine, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Build the image of remapfs as its Dockerfile says, and one of the stand-in for vLLM.

    REMAPFS_DOCKER_BASE is a tar file of a root with Python and its venv module, REMAPFS_DOCKER_WHEELS a
    directory of what pip would fetch for that Python.
    """
    for variable in ("REMAPFS_DOCKER_BASE", "REMAPFS_DOCKER_WHEELS"):
        if not os.environ.get(variable):
            pytest.skip(f"{variable} is not set")
    docker.docker("import", os.environ["REMAPFS_DOCKER_BASE"], "debian:test")
    offline = tmp_path_factory.mktemp("offline")
    shutil.copytree(os.environ["REMAPFS_DOCKER_WHEELS"], offline / "wheels")
    # As an official image of Python has it, PATH names /usr/local/bin; pip asks no registry.
    (offline / "Dockerfile").write_text(
        "FROM debian:test\nCOPY wheels /wheels\nENV PIP_NO_INDEX=1 PIP_FIND_LINKS=/wheels "
        "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n"
    )
    docker.docker("build", "--network=none", "-t", PYTHON, offline)
    dockerfile = ROOT / "deploy/docker/Dockerfile"
    given = ("--network=none", f"--build-arg=PYTHON={PYTHON}", "-f", dockerfile)
    docker.docker("build", *given, "-t", REMAPFS, ROOT)
    server = tmp_path_factory.mktemp("vllm")
    shutil.copy(Path(__file__).with_name("vllm"), server)
    (server / "Dockerfile").write_text(f"FROM {PYTHON}\nCOPY vllm /usr/local/bin/\n")
    docker.docker("build", "--network=none", "-t", VLLM, server)


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
