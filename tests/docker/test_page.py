"""docs/docker.md shows what really happens: its commands are run on an engine, and their output compared."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from docker_engine import BUSYBOX
from mounting import remapfs
from remapfs.demo import write_checkpoint

if TYPE_CHECKING:
    from docker_engine import Engine

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"^```console\n((?:.*\n)*?)```$", re.MULTILINE)


def test_the_page_on_containers_is_true(docker: Engine, models: Path) -> None:
    """Every command of it, in order, prints what the page says."""
    folder = models.parent
    folder.chmod(0o755)  # as a host's /data has it; a mount says so where not everybody may enter
    source = folder / "DeepSeek-V4-NVFP4"
    source.mkdir()
    write_checkpoint(source)
    docker.docker("tag", BUSYBOX, "busybox")
    program = folder / "remapfs"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m remapfs "$@"\n')
    program.chmod(0o755)
    compared = 0
    try:
        for block in BLOCK.findall((DOCS / "docker.md").read_text()):
            for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
                command, _, output = part.partition("\n")
                here = command.replace("/mnt/models", str(models)).replace(
                    "/data/DeepSeek", f"{folder}/DeepSeek"
                )
                done = subprocess.run(
                    ["sh", "-c", here],
                    env=docker.environment | {"PATH": f"{folder}:{os.environ['PATH']}"},
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                    check=False,
                    timeout=60,
                )
                assert (command, done.stdout) == (command, output)
                compared += 1
    finally:
        docker.docker("rm", "-f", "plain", "rslave", check=False)
        if (models / "v4").is_mount():
            remapfs("umount", models / "v4")
    assert compared > 10


def test_every_file_that_the_pages_name_exists() -> None:
    """Links, and paths in commands."""
    for page in ("docker.md", "kubernetes.md"):
        text = (DOCS / page).read_text()
        for path in re.findall(r"\]\(([^)#:]+)\)", text):
            assert (DOCS / path).exists(), path
        for path in re.findall(r"(?<![\w/])deploy/[\w./-]*\w", text):
            assert (DOCS.parent / path).exists(), path
