"""Which bytes a comparison reads."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from remapfs.checkpoint.source import Source
from remapfs.plan import Literal, Slice
from remapfs.present.options import MIB
from remapfs.verify.chunks import CHUNK, chunks, sampled
from remapfs.verify.expected import Part

SOURCE = Source("/s", 1 << 40, 1, 1, 1)


@st.composite
def _parts(draw: st.DrawFn) -> tuple[Part, ...]:
    lengths = draw(st.lists(st.integers(1, 6 * MIB) | st.just(MIB), max_size=5))
    gaps = draw(st.lists(st.integers(0, 9), min_size=5, max_size=5))
    parts = [Part(0, Literal(b"header"))]
    at = 6
    for length, gap in zip(lengths, gaps, strict=False):
        at += gap
        parts.append(Part(at, Slice(SOURCE, at + 100, length)))
        at += length
    return tuple(parts)


@given(_parts())
def test_chunks_are_the_parts(parts: tuple[Part, ...]) -> None:
    """Cut, so that none is larger than a chunk, and none is missing."""
    cut = list(chunks(parts))
    assert all(0 < part.extent.length <= CHUNK for part in cut)
    assert sum(part.extent.length for part in cut) == sum(part.extent.length for part in parts)
    assert all(before.start + before.extent.length <= after.start for before, after in pairwise(cut))


@given(_parts(), st.integers(1, 8))
def test_a_sample_has_the_size_that_was_asked_for(parts: tuple[Part, ...], mebibytes: int) -> None:
    """Or all of it; the header, the first byte and, of two MiB on, the last are among it."""
    found = [part for part in sampled(parts, mebibytes) if isinstance(part.extent, Slice)]
    slices = [part for part in parts if isinstance(part.extent, Slice)]
    total = sum(part.extent.length for part in slices)
    assert sum(part.extent.length for part in found) == min(total, mebibytes * MIB)
    assert sampled(parts, mebibytes)[0] == parts[0]
    assert all(before.start + before.extent.length <= after.start for before, after in pairwise(found))
    if slices:
        assert found[0].start == slices[0].start
        if mebibytes > 1:
            last = slices[-1]
            assert found[-1].start + found[-1].extent.length == last.start + last.extent.length


@given(_parts(), st.integers(1, 8))
def test_a_sample_keeps_the_pairs(parts: tuple[Part, ...], mebibytes: int) -> None:
    """What a byte is compared with does not change: here every source offset is 100 further."""
    for part in sampled(parts, mebibytes):
        if isinstance(part.extent, Slice):
            assert part.extent.offset == part.start + 100
