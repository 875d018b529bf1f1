"""Small plans for the presenters' tests; run as a program, it serves one."""

from __future__ import annotations

import logging
import mmap
import os
import stat
import sys
from pathlib import Path

from remapfs.checkpoint.source import Attributes, Source, identify
from remapfs.plan.extents import Extent, Literal, Slice, VirtualFile
from remapfs.plan.model import Plan
from remapfs.plan.tree import Directory
from remapfs.present.fuse import serve
from remapfs.present.options import MountOptions

SKIPPED = 16
# Longer by a page, so that what follows lies in step with the source, as a rewritten shard's data does.
HEAD = (b"a head that remapfs wrote itself" * 129)[: mmap.PAGESIZE + SKIPPED]


def source_of(path: Path) -> Source:
    """Identify a file as a checkpoint scan does."""
    return identify(str(path.resolve()), path.stat())


def attributes_of(path: Path) -> Attributes:
    """Take a file's or directory's attributes, without its write bits."""
    status = path.stat()
    return Attributes(stat.S_IMODE(status.st_mode) & 0o555, status.st_uid, status.st_gid, status.st_mtime_ns)


def virtual(path: Path, name: str) -> VirtualFile:
    """Present a file under `name` with its first 16 bytes replaced by a head, as a rewritten shard is."""
    source = source_of(path)
    extents: list[Extent] = [Literal(HEAD)]
    if source.size > SKIPPED:
        extents.append(Slice(source, SKIPPED, source.size - SKIPPED))
    return VirtualFile.of(name, extents if source.size else (), attributes_of(path))


def plan_of(root: Path, *more: VirtualFile) -> Plan:
    """Present every file below `root`, and further virtual files in its top directory."""
    root = root.resolve()
    files, directories = list(more), []
    for folder, _, names in os.walk(root):
        directory = Path(folder)
        path = str(directory.relative_to(root))
        directories.append(Directory("" if path == "." else path, attributes_of(directory)))
        files += [virtual(directory / name, str((directory / name).relative_to(root))) for name in names]
    return Plan(
        str(root),
        tuple(sorted(files, key=lambda file: file.path)),
        tuple(sorted(directories, key=lambda directory: directory.path)),
        (),
    )


def expected(path: Path) -> bytes:
    """Say what a presented file contains, from the source alone."""
    content = path.read_bytes()
    return HEAD + content[SKIPPED:] if content else b""


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
    serve(plan_of(Path(sys.argv[1])), sys.argv[2], MountOptions(), lambda: print("ready", flush=True))  # noqa: T201 - the test waits for it
