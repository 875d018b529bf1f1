"""What is written, copied and cloned."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from remapfs.checkpoint.source import Attributes, Source
from remapfs.plan import Extent, Literal, Slice, VirtualFile
from remapfs.present.reflink.steps import Clone, Copy, Step, Write, steps_of, unaligned, untouched

BLOCK = 16
SOURCE = Source("/s", 1000, 1, 1, 1)
ATTRIBUTES = Attributes(0o444, 0, 0, 0)

_slices = st.tuples(st.integers(0, 1000), st.integers(0, 300)).map(
    lambda pair: Slice(SOURCE, pair[0], min(pair[1], SOURCE.size - pair[0]))
)
_extents = st.lists(st.one_of(st.binary(max_size=40).map(Literal), _slices), max_size=6)


def file_of(*extents: Extent) -> VirtualFile:
    """Make a file of a few extents."""
    return VirtualFile.of("f", extents, ATTRIBUTES)


def as_extent(step: Step) -> Extent:
    """Say which bytes a step brings."""
    return Literal(step.data) if isinstance(step, Write) else step.part


@given(_extents)
def test_steps_are_the_file(extents: list[Extent]) -> None:
    """In order, without a gap, and with the same bytes."""
    file = file_of(*extents)
    for uncloneable in (None, (), (SOURCE,)):
        steps = list(steps_of(file, BLOCK, uncloneable))
        assert [step.at for step in steps] == [sum(s.length for s in steps[:n]) for n in range(len(steps))]
        assert file_of(*map(as_extent, steps)) == file
        if uncloneable != ():
            assert not any(isinstance(step, Clone) for step in steps)


@given(_extents)
def test_clones_are_what_the_kernel_takes(extents: list[Extent]) -> None:
    """Offsets on block boundaries; whole blocks, or up to the end of both files."""
    file = file_of(*extents)
    for step in steps_of(file, BLOCK, ()):
        if isinstance(step, Clone):
            assert step.at % BLOCK == step.part.offset % BLOCK == 0
            ends = step.part.offset + step.length == SOURCE.size and step.at + step.length == file.size
            assert step.length % BLOCK == 0 or ends


@given(_slices)
def test_less_than_two_blocks_of_an_aligned_slice_are_copied(part: Slice) -> None:
    """Less than one at its head, and than one at its tail."""
    file = file_of(Literal(bytes(part.offset % BLOCK)), part)
    assert unaligned(file, BLOCK) == 0
    copied = [step.length for step in steps_of(file, BLOCK, ()) if isinstance(step, Copy)]
    assert all(length < BLOCK for length in copied)
    assert len(copied) <= 2


def test_what_lies_otherwise_in_the_blocks_is_counted() -> None:
    """From a block on; smaller slices are copied whatever their place."""
    assert unaligned(file_of(Literal(b"x"), Slice(SOURCE, 0, BLOCK)), BLOCK) == BLOCK
    assert unaligned(file_of(Literal(b"x"), Slice(SOURCE, 0, BLOCK - 1)), BLOCK) == 0


def test_a_whole_source_is_untouched() -> None:
    """Part of one, or one with a new header, is not."""
    whole = Slice(SOURCE, 0, SOURCE.size)
    assert untouched(file_of(whole)) == SOURCE
    assert untouched(file_of(whole.part(0, 999))) is None
    assert untouched(file_of(Literal(b"x"), whole)) is None
    assert untouched(file_of()) is None
