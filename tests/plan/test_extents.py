"""Virtual files and their pieces."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remapfs.checkpoint import Attributes, Source
from remapfs.plan import Extent, Literal, Slice, VirtualFile

ATTRIBUTES = Attributes(0o444, 0, 0, 0)
CONTENT = {path: bytes(range(start, start + 100)) for path, start in (("/a", 0), ("/b", 100))}
SOURCES = [Source(path, 100, 0, 0, ino) for ino, path in enumerate(CONTENT)]

_SLICES = st.builds(Slice, st.sampled_from(SOURCES), st.integers(0, 60), st.integers(0, 40))
_EXTENTS = st.lists(st.binary(max_size=5).map(Literal) | _SLICES, max_size=8)


def content(extents: tuple[Extent, ...] | list[Extent]) -> bytes:
    """Put bytes together as simply as possible."""
    return b"".join(
        extent.data
        if isinstance(extent, Literal)
        else CONTENT[extent.source.path][extent.offset : extent.offset + extent.length]
        for extent in extents
    )


@settings(deadline=None, max_examples=200)
@given(_EXTENTS, st.integers(0, 250), st.integers(0, 250))
def test_pieces_are_the_bytes_asked_for(extents: list[Extent], offset: int, size: int) -> None:
    """For any extents, offset and size, past the end too; no piece is empty."""
    file = VirtualFile.of("f", extents, ATTRIBUTES)
    whole = content(extents)
    pieces = list(file.pieces(offset, size))
    assert file.size == len(whole)
    assert content(file.extents) == whole
    assert content(pieces) == whole[offset : offset + size]
    assert all(piece.length > 0 for piece in pieces)


@settings(deadline=None, max_examples=200)
@given(_EXTENTS)
def test_there_is_one_form(extents: list[Extent]) -> None:
    """No extent is empty, and no two slices continue each other; extents start where the sizes say."""
    file = VirtualFile.of("f", extents, ATTRIBUTES)
    assert all(extent.length for extent in file.extents)
    for before, after in zip(file.extents, file.extents[1:], strict=False):
        if isinstance(before, Slice) and isinstance(after, Slice) and before.source == after.source:
            assert before.offset + before.length != after.offset
    assert [sum(extent.length for extent in file.extents[:n]) for n in range(len(file.extents))] == [
        *file.starts
    ]
    assert VirtualFile.of("f", file.extents, ATTRIBUTES) == file


def test_slices_that_continue_each_other_are_one() -> None:
    """Also over an empty extent between them; another source is another extent."""
    one, other = SOURCES
    file = VirtualFile.of(
        "f", [Slice(one, 0, 5), Literal(b""), Slice(one, 5, 5), Slice(other, 10, 5)], ATTRIBUTES
    )
    assert file.extents == (Slice(one, 0, 10), Slice(other, 10, 5))


def test_an_empty_extent_cannot_be() -> None:
    """Not by the constructor either."""
    with pytest.raises(ValueError, match="f: an empty extent"):
        VirtualFile("f", (Literal(b""),), ATTRIBUTES)


def test_two_slices_that_are_one_cannot_be() -> None:
    """Not by the constructor either."""
    with pytest.raises(ValueError, match="f: two slices that are one"):
        VirtualFile("f", (Slice(SOURCES[0], 0, 5), Slice(SOURCES[0], 5, 5)), ATTRIBUTES)


def test_a_whole_literal_is_not_copied() -> None:
    """A piece that is all of it is the same object."""
    literal = Literal(b"abc")
    assert literal.part(0, 3) is literal
    assert literal.part(1, 1) == Literal(b"b")


def test_an_empty_file_has_no_pieces() -> None:
    """And no extents."""
    file = VirtualFile.of("f", [], ATTRIBUTES)
    assert (file.size, file.starts, list(file.pieces(0, 10))) == (0, (), [])
