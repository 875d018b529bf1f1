"""The directory tree of a plan."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from remapfs.checkpoint import Attributes
from remapfs.plan import Literal, VirtualFile
from remapfs.plan.tree import ROOT_INO, Directory, Node, build_tree

ATTRIBUTES = Attributes(0o444, 0, 0, 0)
_PATHS = st.lists(st.sampled_from(["a", "b", "a.b", "a-b", "é"]), min_size=1, max_size=3).map("/".join)


def tree(files: list[str], directories: list[str]) -> tuple[Node, ...]:
    """Build the tree of some paths."""
    return build_tree(
        [VirtualFile.of(path, [Literal(b"x")], ATTRIBUTES) for path in files],
        [Directory(path, ATTRIBUTES) for path in ["", *directories]],
    )


def sample(paths: list[str]) -> tuple[list[str], list[str]]:
    """Take paths for files, and what is above any of them for directories."""
    above = {path.rsplit("/", cut)[0] for path in paths for cut in range(1, path.count("/") + 1)}
    return [path for path in paths if path not in above], sorted(above)


@settings(deadline=None, max_examples=100)
@given(st.lists(_PATHS, max_size=8, unique=True))
def test_every_entry_is_found_by_its_path(paths: list[str]) -> None:
    """From the root, name by name, and the numbers do not depend on the order of the input."""
    files, directories = sample(paths)
    nodes = tree(files, directories)
    assert [node.ino for node in nodes] == list(range(ROOT_INO, ROOT_INO + len(nodes)))
    for path in [*files, *directories]:
        ino = ROOT_INO
        for name in path.split("/"):
            parent = ino
            ino = nodes[ino - 1].children[name]
            assert nodes[ino - 1].parent == parent
            assert nodes[ino - 1].name == name
        node = nodes[ino - 1]
        assert node.entry.path == path
        assert node.is_directory == (path in directories)
    assert tree(files[::-1], directories[::-1]) == nodes


def test_the_root_is_its_own_parent() -> None:
    """An empty checkpoint has one entry."""
    (root,) = tree([], [])
    assert (root.ino, root.parent, root.name, root.children) == (1, 1, "", {})
    assert root.is_directory
    assert (root.size, root.links) == (0, 2)


def test_numbers_follow_the_order_of_the_paths() -> None:
    """A directory comes directly before what it holds, whatever sorts between as text."""
    nodes = tree(["a/x", "a-b", "a.b"], ["a"])
    assert [node.entry.path for node in nodes] == ["", "a", "a/x", "a-b", "a.b"]
    assert list(nodes[0].children) == ["a", "a-b", "a.b"]


def test_a_file_shows_its_size() -> None:
    """One link, no children."""
    node = tree(["f"], [])[1]
    assert (node.size, node.links, node.children) == (1, 1, {})
