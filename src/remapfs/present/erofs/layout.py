"""What lies where: which parts of a plan stay in their files, and which go into the image."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from remapfs.errors import RemapError
from remapfs.plan.extents import Literal, Slice, VirtualFile
from remapfs.plan.tree import Directory, build_tree
from remapfs.present.erofs import ondisk
from remapfs.present.erofs.ondisk import BLOCK

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from remapfs.checkpoint.source import Source
    from remapfs.plan.tree import Node

CHUNK: Final = 1 << 19
"""Bytes a chunk: the unit in which a file's data is either in the image or stays where it is.

A shard's first and last chunk are in the image, and so are eight bytes for each of its chunks. For 95 shards
of 9.7 GB the image has 112 MB with chunks of 512 KiB, 179 MB with 1 MiB and 124 MB with 128 KiB.
"""
MAX_COPIED: Final = 16 << 20
"""How many bytes of one file that stay on disk in the plan may be copied into the image."""
_HINT: Final = "--presenter fuse serves any plan"


@dataclass(frozen=True, slots=True)
class Inside:
    """`count` chunks of a file from `first` on, written into the image from its data block `block` on."""

    first: int
    count: int
    block: int


@dataclass(frozen=True, slots=True)
class Outside:
    """`count` chunks of a file from `first` on that stay in `source`, from its block `block` on."""

    first: int
    count: int
    source: Source
    block: int


Run = Inside | Outside


@dataclass(frozen=True, slots=True)
class PlacedFile:
    """A file whose inode is at `nid`; `runs` cover its chunks in order, none of them if it is empty."""

    node: Node
    file: VirtualFile
    nid: int
    runs: tuple[Run, ...]

    @property
    def in_chunks(self) -> bool:
        """Whether any of its bytes stay outside; if not, it is one run of blocks in the image."""
        return any(isinstance(run, Outside) for run in self.runs)


@dataclass(frozen=True, slots=True)
class PlacedDirectory:
    """A directory whose inode is at `nid`; the names of each of its blocks, from data block `block` on."""

    node: Node
    nid: int
    names: Sequence[Sequence[bytes]]
    block: int


Placed = PlacedFile | PlacedDirectory


@dataclass(frozen=True, slots=True)
class Layout:
    """Where everything is: `placed[i]` has inode number i + 1, `devices` are in the order of their slots.

    The image is: superblock and device table, from block `metadata` on the inodes, from block `data` on
    `data_blocks` blocks of data. `chunk` is in bytes.
    """

    placed: tuple[Placed, ...]
    devices: tuple[Source, ...]
    chunk: int
    metadata: int
    data: int
    data_blocks: int

    @property
    def size(self) -> int:
        """The size of the image in bytes."""
        return (self.data + self.data_blocks) * BLOCK


def lay_out(files: Sequence[VirtualFile], directories: Sequence[Directory], chunk: int = CHUNK) -> Layout:
    """Decide where everything is.

    Raises RemapError if too much of a file would have to be copied, since it is not in step with its source.
    """
    places = _Places()
    placed: list[Placed] = []
    nid = 0
    for node in build_tree(files, directories):
        indexes = 0
        if isinstance(node.entry, Directory):
            names = ondisk.directory_blocks(sorted([b".", b"..", *map(os.fsencode, node.children)]))
            placed.append(PlacedDirectory(node, nid, names, places.take(len(names))))
        else:
            file = PlacedFile(node, node.entry, nid, tuple(_runs(node.entry, chunk, places)))
            placed.append(file)
            indexes = sum(run.count for run in file.runs) * ondisk.INDEX_SIZE if file.in_chunks else 0
        nid += _up(ondisk.INODE_SIZE + indexes, ondisk.NODE_UNIT) // ondisk.NODE_UNIT
    devices = _devices(placed)
    metadata = _blocks(ondisk.DEVICE_TABLE + len(devices) * ondisk.SLOT_SIZE)
    data = metadata + _blocks(nid * ondisk.NODE_UNIT)
    return Layout(tuple(placed), devices, chunk, metadata, data, places.taken)


class _Places:
    """Hands out the blocks of the data area, one after another."""

    def __init__(self) -> None:
        self.taken = 0

    def take(self, blocks: int) -> int:
        first = self.taken
        self.taken += blocks
        return first


def _runs(file: VirtualFile, chunk: int, places: _Places) -> Iterator[Run]:
    """Cut a file into runs of chunks that stay outside, and of those that do not."""
    outside = list(_outside(file, chunk))
    _check(file, outside, chunk)
    done = 0
    end = -(-file.size // chunk)
    for run in outside:
        if run.first > done:
            yield _inside(file, done, run.first - done, chunk, places)
        yield run
        done = run.first + run.count
    if done < end:
        yield _inside(file, done, end - done, chunk, places)


def _outside(file: VirtualFile, chunk: int) -> Iterator[Outside]:
    """Find the chunks that lie wholly in one slice, in step with the blocks of its source.

    A last chunk that ends inside a block stays out of it: the kernel reads whole blocks, and one that
    crosses the source's end fails with EIO, while one that does not would show what lies behind.
    """
    for start, extent in zip(file.starts, file.extents, strict=True):
        if isinstance(extent, Literal) or (extent.offset - start) % BLOCK:
            continue
        first, end = -(-start // chunk), start + extent.length
        last = -(-end // chunk) if end == file.size and end % BLOCK == 0 else end // chunk
        if last > first:
            block = (extent.offset + first * chunk - start) // BLOCK
            yield Outside(first, last - first, extent.source, block)


def _inside(file: VirtualFile, first: int, count: int, chunk: int, places: _Places) -> Inside:
    length = min(count * chunk, file.size - first * chunk)
    return Inside(first, count, places.take(_blocks(length)))


def _check(file: VirtualFile, outside: list[Outside], chunk: int) -> None:
    slices = [extent for extent in file.extents if isinstance(extent, Slice)]
    kept = sum(extent.length for extent in slices)
    mapped = sum(min((run.first + run.count) * chunk, file.size) - run.first * chunk for run in outside)
    if kept - mapped <= MAX_COPIED:
        return
    for start, extent in zip(file.starts, file.extents, strict=True):
        if isinstance(extent, Slice) and (extent.offset - start) % BLOCK:
            raise RemapError(
                f"the erofs presenter cannot show {file.path}: its byte {start:,} is byte {extent.offset:,} "
                f"of {extent.source.path}, and EROFS maps whole blocks of {BLOCK} bytes",
                f"a rule that drops or adds tensors moves those behind them; {_HINT}",
            )
    raise RemapError(
        f"the erofs presenter cannot show {file.path}: its {len(slices):,} parts are too small to be mapped, "
        f"and {kept - mapped:,} bytes would have to be copied",
        _HINT,
    )


def _devices(placed: Sequence[Placed]) -> tuple[Source, ...]:
    runs = (run for each in placed if isinstance(each, PlacedFile) for run in each.runs)
    devices = tuple(dict.fromkeys(run.source for run in runs if isinstance(run, Outside)))
    if len(devices) > ondisk.MAX_DEVICES:
        raise RemapError(
            f"the erofs presenter cannot show {len(devices):,} files: EROFS takes {ondisk.MAX_DEVICES:,}",
            _HINT,
        )
    return devices


def _blocks(length: int) -> int:
    return -(-length // BLOCK)


def _up(length: int, unit: int) -> int:
    return -(-length // unit) * unit
