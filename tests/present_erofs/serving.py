"""A plan in step with blocks, made of a directory; run as a program, it is mounted and served."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path

from present.plans import attributes_of, source_of
from remapfs.plan.extents import Extent, Literal, Slice, VirtualFile
from remapfs.plan.model import Plan
from remapfs.plan.tree import Directory
from remapfs.present.erofs import Backing, ImageOptions, serve
from remapfs.present.options import MountOptions

HEAD = b"a head that remapfs wrote itself".ljust(8192, b".")
SKIPPED = 4096


def virtual(path: Path, name: str) -> VirtualFile:
    """Present a file with its first block replaced by a head of two, as a shard with longer names is."""
    source = source_of(path)
    if source.size <= SKIPPED:
        return VirtualFile.of(name, [Slice(source, 0, source.size)], attributes_of(path))
    extents: list[Extent] = [Literal(HEAD), Slice(source, SKIPPED, source.size - SKIPPED)]
    return VirtualFile.of(name, extents, attributes_of(path))


def plan_of(root: Path) -> Plan:
    """Present every file below `root`."""
    root = root.resolve()
    files, directories = [], []
    for folder, _, names in os.walk(root):
        directory = Path(folder)
        path = str(directory.relative_to(root))
        directories.append(Directory("" if path == "." else path, attributes_of(directory)))
        files += [virtual(directory / name, str((directory / name).relative_to(root))) for name in names]
    files.sort(key=lambda file: file.path)
    directories.sort(key=lambda directory: directory.path)
    return Plan(str(root), tuple(files), tuple(directories), ())


def expected(path: Path) -> bytes:
    """Say what a presented file contains, from the source alone."""
    content = path.read_bytes()
    return HEAD + content[SKIPPED:] if len(content) > SKIPPED else content


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
    source, mountpoint, backing, open_to = sys.argv[1:]
    serve(
        plan_of(Path(source)),
        mountpoint,
        MountOptions(allow_other=open_to == "all"),
        lambda: print("ready", flush=True),  # noqa: T201  # the test waits for it
        ImageOptions(backing=Backing(backing)),
    )
