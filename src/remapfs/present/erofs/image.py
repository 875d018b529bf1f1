"""Writing an image: what a layout says, as bytes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, BinaryIO, Final

from remapfs.plan.extents import Literal
from remapfs.present.erofs import ondisk
from remapfs.present.erofs.layout import Inside, PlacedDirectory, PlacedFile
from remapfs.present.erofs.ondisk import BLOCK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from remapfs.checkpoint.source import Source
    from remapfs.plan.extents import Slice, VirtualFile
    from remapfs.present.erofs.layout import Layout

    Read = Callable[[Slice], bytes]
    """Reads a slice of at most a few MiB from its source."""

_PART: Final = 1 << 20


def write_image(stream: BinaryIO, layout: Layout, uuid: bytes, read: Read) -> None:
    """Write the image of `layout` to `stream`, which stands at 0; `uuid` has 16 bytes."""
    head = _head(layout, uuid)
    stream.write(ondisk.with_checksum(head[:BLOCK]) + head[BLOCK:])
    stream.writelines(_inodes(layout))
    _pad(stream)
    for placed in layout.placed:
        if isinstance(placed, PlacedDirectory):
            _go_to(stream, layout, placed.block)
            stream.write(_directory(layout, placed))
        else:
            for run in placed.runs:
                if isinstance(run, Inside):
                    _go_to(stream, layout, run.block)
                    start = run.first * layout.chunk
                    _copy(stream, placed.file, start, run.count * layout.chunk, read)
    _pad(stream)


def _head(layout: Layout, uuid: bytes) -> bytes:
    """Make the superblock and the device table, padded to whole blocks."""
    superblock = ondisk.superblock(
        uuid=uuid,
        inodes=len(layout.placed),
        blocks=layout.data + layout.data_blocks,
        metadata=layout.metadata,
        devices=len(layout.devices),
        mtime_ns=layout.placed[0].node.entry.attributes.mtime_ns,
    )
    slots = b"".join(ondisk.slot(source.size // BLOCK) for source in layout.devices)
    return (bytes(ondisk.SUPERBLOCK_START) + superblock + slots).ljust(layout.metadata * BLOCK, b"\0")


def _inodes(layout: Layout) -> Iterator[bytes]:
    slots = {source: number for number, source in enumerate(layout.devices, 1)}
    for placed in layout.placed:
        length = 0
        for part in _inode(layout, placed, slots):
            length += len(part)
            yield part
        yield bytes(-length % ondisk.NODE_UNIT)


def _inode(layout: Layout, placed: PlacedFile | PlacedDirectory, slots: dict[Source, int]) -> Iterator[bytes]:
    node = placed.node
    attributes = node.entry.attributes
    if isinstance(placed, PlacedFile) and placed.in_chunks:
        yield ondisk.chunked_inode(attributes, number=node.ino, size=node.size, chunk=layout.chunk)
        for run in placed.runs:
            if isinstance(run, Inside):
                yield ondisk.indexes(run.count, layout.chunk, 0, layout.data + run.block)
            else:
                yield ondisk.indexes(run.count, layout.chunk, slots[run.source], run.block)
        return
    if isinstance(placed, PlacedFile):
        runs = [run for run in placed.runs if isinstance(run, Inside)]
        size, first = node.size, runs[0].block if runs else 0
    else:
        size, first = ondisk.directory_size(placed.names), placed.block
    yield ondisk.inode(
        attributes,
        is_directory=node.is_directory,
        number=node.ino,
        links=node.links,
        size=size,
        block=layout.data + first,
    )


def _directory(layout: Layout, placed: PlacedDirectory) -> bytes:
    def entry(name: bytes) -> tuple[bytes, int, bool]:
        match name:
            case b".":
                ino = placed.node.ino
            case b"..":
                ino = placed.node.parent
            case _:
                ino = placed.node.children[os.fsdecode(name)]
        target = layout.placed[ino - 1]
        return name, target.nid, target.node.is_directory

    blocks = [ondisk.directory_block([entry(name) for name in names]) for names in placed.names]
    return b"".join([*(block.ljust(BLOCK, b"\0") for block in blocks[:-1]), blocks[-1]])


def _copy(stream: BinaryIO, file: VirtualFile, start: int, length: int, read: Read) -> None:
    for piece in file.pieces(start, length):
        if isinstance(piece, Literal):
            stream.write(piece.data)
            continue
        starts = range(0, piece.length, _PART)
        stream.writelines(read(piece.part(at, min(_PART, piece.length - at))) for at in starts)


def _go_to(stream: BinaryIO, layout: Layout, block: int) -> None:
    """Fill up to a data block; blocks are written in their order."""
    _pad(stream)
    if stream.tell() != (layout.data + block) * BLOCK:
        raise AssertionError(f"data block {block} would be written at byte {stream.tell()}")


def _pad(stream: BinaryIO) -> None:
    stream.write(bytes(-stream.tell() % BLOCK))
