"""A plan's files as a directory tree with fixed inode numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from remapfs.plan.extents import VirtualFile

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from remapfs.checkpoint.source import Attributes

ROOT_INO = 1


@dataclass(frozen=True, slots=True)
class Directory:
    """A directory as it will be seen; the root's path is the empty string."""

    path: str
    attributes: Attributes


@dataclass(frozen=True, slots=True)
class Node:
    """One entry of the tree.

    `ino` is its inode number, `parent` that of its directory (the root is its own parent);
    `children` maps names to inode numbers, sorted by name, and is empty for a file.
    """

    ino: int
    parent: int
    name: str
    entry: VirtualFile | Directory
    children: Mapping[str, int]

    @property
    def is_directory(self) -> bool:
        """Whether it can have children."""
        return isinstance(self.entry, Directory)

    @property
    def size(self) -> int:
        """The size that stat shows, in bytes; 0 for a directory."""
        return self.entry.size if isinstance(self.entry, VirtualFile) else 0

    @property
    def links(self) -> int:
        """The link count that stat shows: 2 for a directory, as file systems without counts do."""
        return 2 if self.is_directory else 1


def build_tree(files: Sequence[VirtualFile], directories: Sequence[Directory]) -> tuple[Node, ...]:
    """Give every entry its number: the root is 1, the others follow in the order of their paths.

    The same paths always get the same numbers, so that a later server can continue a live mount.
    Element i of the result has inode number i + 1. Every parent directory must be among `directories`,
    the root's with the empty path.
    """
    entries: list[VirtualFile | Directory] = sorted(
        [*files, *directories], key=lambda entry: _key(entry.path)
    )
    numbers = {entry.path: ino for ino, entry in enumerate(entries, ROOT_INO)}
    children: dict[str, dict[str, int]] = {directory.path: {} for directory in directories}
    for entry in entries[1:]:
        parent, _, name = entry.path.rpartition("/")
        children[parent][name] = numbers[entry.path]
    return tuple(
        Node(
            numbers[entry.path],
            numbers[entry.path.rpartition("/")[0]],
            entry.path.rpartition("/")[2],
            entry,
            children.get(entry.path, {}) if isinstance(entry, Directory) else {},
        )
        for entry in entries
    )


def _key(path: str) -> tuple[str, ...]:
    return tuple(path.split("/")) if path else ()
