"""Which chunks stay where they are, and which files are refused."""

from __future__ import annotations

import pytest

from present_erofs.images import ATTRIBUTES, ROOT
from remapfs.checkpoint.source import Source
from remapfs.errors import RemapError
from remapfs.plan.extents import Extent, Literal, Slice, VirtualFile
from remapfs.present.erofs.layout import CHUNK, Inside, Layout, Outside, PlacedFile, lay_out

MIB = 1 << 20


def source(size: int, name: str = "/data/model.safetensors") -> Source:
    """Make up a source."""
    return Source(name, size, 0, 1, 2)


def layout_of(*extents: Extent, chunk: int = CHUNK) -> tuple[Layout, PlacedFile]:
    """Lay out one file."""
    layout = lay_out([VirtualFile.of("model.safetensors", extents, ATTRIBUTES)], [ROOT], chunk)
    file = layout.placed[1]
    assert isinstance(file, PlacedFile)
    return layout, file


def test_a_renamed_shards_first_and_last_chunk_are_in_the_image() -> None:
    """The first has the header; the last ends inside a block. The others stay, at the same offset."""
    shard = source(10 * CHUNK + 5000)
    layout, file = layout_of(Literal(bytes(3000)), Slice(shard, 3000, shard.size - 3000))
    blocks = CHUNK // 4096
    assert file.runs == (
        Inside(0, 1, 1),
        Outside(1, 9, shard, blocks),
        Inside(10, 1, 1 + blocks),
    )
    assert layout.devices == (shard,)
    assert layout.data_blocks == 1 + blocks + 2


def test_a_header_that_grew_by_a_page_shifts_the_blocks() -> None:
    """The file's chunk 1 then begins a block earlier in the source."""
    shard = source(4 * CHUNK)
    _, file = layout_of(Literal(bytes(3000 + 4096)), Slice(shard, 3000, shard.size - 3000))
    assert file.runs == (Inside(0, 1, 1), Outside(1, 4, shard, CHUNK // 4096 - 1))


def test_a_shard_that_ends_with_a_block_has_no_tail_in_the_image() -> None:
    """Nothing crosses its end."""
    shard = source(4 * CHUNK + 8192)
    _, file = layout_of(Slice(shard, 0, shard.size))
    assert file.runs == (Outside(0, 5, shard, 0),)


def test_no_block_outside_crosses_the_end_of_its_source() -> None:
    """Wherever a slice ends: the kernel fails to read a block that does."""
    for size in (CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK + 4095, 2 * CHUNK + 4096, 3 * CHUNK - 4096):
        shard = source(size)
        for offset in (0, 4096, 8192):
            _, file = layout_of(Slice(shard, offset, size - offset))
            for run in file.runs:
                if isinstance(run, Outside):
                    end = min((run.first + run.count) * CHUNK, file.file.size)
                    blocks = -(-(end - run.first * CHUNK) // 4096)
                    assert (run.block + blocks) * 4096 <= size


def test_bytes_behind_the_end_of_a_file_are_not_shown_by_a_mapping() -> None:
    """A file that ends before its source's trailing bytes has its last block in the image."""
    shard = source(3 * CHUNK)
    _, file = layout_of(Slice(shard, 0, 2 * CHUNK + 5))
    assert file.runs == (Outside(0, 2, shard, 0), Inside(2, 1, 1))


def test_a_small_file_is_in_the_image_whole() -> None:
    """No device is needed for it."""
    layout, file = layout_of(Slice(source(CHUNK - 1), 0, CHUNK - 1))
    assert not file.in_chunks
    assert layout.devices == ()


def test_an_empty_file_has_no_data() -> None:
    """And no chunk."""
    _, file = layout_of()
    assert file.runs == ()


def test_several_slices_in_step_stay_where_they_are() -> None:
    """As after dropping a tensor of whole blocks; the chunk over the seam is in the image."""
    one, two = source(4 * CHUNK, "/one"), source(9 * CHUNK, "/two")
    layout, file = layout_of(Slice(one, 0, 2 * CHUNK + 8192), Slice(two, 4096, 4 * CHUNK - 8192))
    assert layout.devices == (one, two)
    assert file.runs == (
        Outside(0, 2, one, 0),
        Inside(2, 1, 1),
        Outside(3, 3, two, (4096 + CHUNK - 8192) // 4096),
    )


def test_a_shard_out_of_step_is_refused_with_both_places() -> None:
    """As after dropping a small tensor: naming the file and the presenter that can."""
    shard = source(100 * MIB)
    with pytest.raises(RemapError) as failure:
        layout_of(Literal(bytes(4096)), Slice(shard, 4100, 90 * MIB))
    assert failure.value.message == (
        "the erofs presenter cannot show model.safetensors: its byte 4,096 is byte 4,100 of "
        "/data/model.safetensors, and EROFS maps whole blocks of 4096 bytes"
    )
    assert "--presenter fuse" in failure.value.hint
    assert failure.value.exit_code == 2


def test_a_little_out_of_step_is_copied() -> None:
    """Up to 16 MiB of a file."""
    shard = source(100 * MIB)
    _, file = layout_of(Literal(b"x"), Slice(shard, 0, 16 * MIB))
    assert not file.in_chunks
    with pytest.raises(RemapError, match="its byte 1 is byte 0"):
        layout_of(Literal(b"x"), Slice(shard, 0, 16 * MIB + 1))


def test_parts_too_small_to_be_mapped_are_refused() -> None:
    """In step, but none has a whole chunk."""
    shard = source(200 * MIB)
    with pytest.raises(RemapError, match=r"its 100 parts are too small to be mapped") as failure:
        layout_of(*(Slice(shard, number * 2 * CHUNK // 2, CHUNK // 2) for number in range(0, 200, 2)))
    assert "--presenter fuse" in failure.value.hint
