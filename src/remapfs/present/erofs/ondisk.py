"""EROFS on disk: its numbers and structs, as fs/erofs/erofs_fs.h of Linux 5.16 and later defines them.

All integers are little-endian. Nothing here does I/O.
"""

from __future__ import annotations

import stat
import struct
import sys
from array import array
from itertools import pairwise
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from remapfs.checkpoint.source import Attributes

BLOCK_BITS: Final = 12
BLOCK: Final = 1 << BLOCK_BITS
"""The block size, 4096 bytes: a renamed shard keeps its data in step with blocks of this size."""
MAGIC: Final = 0xE0F5E1E2
SUPERBLOCK_START: Final = 1024
VOLUME_NAME: Final = b"remapfs"
NODE_UNIT: Final = 32
"""A node id is the position of an inode in the metadata area, in units of 32 bytes."""
INODE_SIZE: Final = 64
INDEX_SIZE: Final = 8
SLOT_SIZE: Final = 128
DEVICE_TABLE: Final = SUPERBLOCK_START + SLOT_SIZE
MAX_DEVICES: Final = (1 << 16) - 1

SUPERBLOCK: Final = struct.Struct("<IIIBBHQQIIII16s16sIHHHBBIQB23x")
"""erofs_super_block: magic, checksum, compatible features, block bits, extra slots, root's node id, number of
inodes, build time in s and ns, blocks, first metadata block, first block of shared attributes, UUID, volume
name, incompatible features, compression, extra devices, position of the device table in slots, directory
block bits, three fields about attributes and packing, attribute filter."""
INODE: Final = struct.Struct("<HHHHQIIIIQII16x")
"""erofs_inode_extended: format, attributes, mode, reserved, size, first block or chunk format, inode number,
uid, gid, mtime in s and ns, links."""
SLOT: Final = struct.Struct("<64sII56x")
"""erofs_deviceslot: tag, blocks, block at which the device appears in one address space of all devices."""
DIRENT: Final = struct.Struct("<QHBB")
"""erofs_dirent: node id, where the name begins in the block, type, reserved."""

_CHECKSUM: Final = 1  # compatible: the superblock has a checksum
_CHUNKED: Final = 0x4  # incompatible: files in chunks
_DEVICES: Final = 0x8  # incompatible: there is a device table
_EXTENDED: Final = 1  # the inode has 64 bytes
_PLAIN: Final = 0 << 1  # the data lies in consecutive blocks
_CHUNKS: Final = 4 << 1  # the data lies in chunks
_INDEXES: Final = 0x20  # chunk format: eight bytes a chunk, which name a device
# Without this, a mount that is given no devices takes chunks of other devices for blocks of the image itself,
# and shows wrong bytes; with it they lie behind the end of any image, and reading them fails.
_FAR: Final = 0xF0000000
_FILE_TYPE: Final = {False: 1, True: 2}
_POLYNOMIAL: Final = 0x82F63B78


def superblock(  # noqa: PLR0913  # the fields that differ between images
    *, uuid: bytes, inodes: int, blocks: int, metadata: int, devices: int, mtime_ns: int
) -> bytes:
    """Pack a superblock without its checksum; `metadata` is the first block of the metadata area."""
    seconds, nanoseconds = _time(mtime_ns)
    return SUPERBLOCK.pack(
        MAGIC,
        0,
        _CHECKSUM,
        BLOCK_BITS,
        0,
        0,
        inodes,
        seconds,
        nanoseconds,
        blocks,
        metadata,
        0,
        uuid,
        VOLUME_NAME,
        (_CHUNKED | _DEVICES) if devices else _CHUNKED,
        0,
        devices,
        DEVICE_TABLE // SLOT_SIZE,
        0,
        0,
        0,
        0,
        0,
    )


def with_checksum(first_block: bytes) -> bytes:
    """Put the checksum of an image's first block where the superblock has it."""
    start = SUPERBLOCK_START
    checksum = struct.pack("<I", _crc32c(first_block[start:]))
    return first_block[: start + 4] + checksum + first_block[start + 8 :]


def slot(blocks: int) -> bytes:
    """Pack the device table's entry for a device of which `blocks` whole blocks are used."""
    return SLOT.pack(b"", blocks, _FAR)


def inode(  # noqa: PLR0913  # an inode's fields
    attributes: Attributes, *, is_directory: bool, number: int, links: int, size: int, block: int
) -> bytes:
    """Pack the inode of a directory or file whose data lies in consecutive blocks from `block` on."""
    kind = stat.S_IFDIR if is_directory else stat.S_IFREG
    return _inode(attributes, _PLAIN, kind, number, links, size, block)


def chunked_inode(attributes: Attributes, *, number: int, size: int, chunk: int) -> bytes:
    """Pack the inode of a file in chunks of `chunk` bytes, whose indexes follow it."""
    form = _INDEXES | (chunk // BLOCK).bit_length() - 1
    return _inode(attributes, _CHUNKS, stat.S_IFREG, number, 1, size, form)


def indexes(count: int, chunk: int, device: int, block: int) -> bytes:
    """Pack the indexes of `count` chunks that follow each other on `device` from `block` on.

    The image itself is device 0.
    """
    # An index is two unused bytes, the device in two and the block in four: one number that grows evenly.
    step = chunk // BLOCK << 32
    first = block << 32 | device << 16
    packed = array("Q", range(first, first + count * step, step))
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tobytes()


def directory_blocks(names: Sequence[bytes]) -> list[Sequence[bytes]]:
    """Split a directory's sorted names, `.` and `..` among them, into those of each block."""
    starts, used = [0], 0
    for position, name in enumerate(names):
        needed = DIRENT.size + len(name)
        if used + needed > BLOCK:
            starts.append(position)
            used = 0
        used += needed
    return [names[begin:end] for begin, end in pairwise([*starts, len(names)])]


def directory_size(blocks: Sequence[Sequence[bytes]]) -> int:
    """Count the bytes of a directory: its last block counts only as far as it is used."""
    return (len(blocks) - 1) * BLOCK + sum(DIRENT.size + len(name) for name in blocks[-1])


def directory_block(entries: Sequence[tuple[bytes, int, bool]]) -> bytes:
    """Pack entries of name, node id and whether it is a directory; not padded to a block."""
    place, heads = DIRENT.size * len(entries), []
    for name, nid, is_directory in entries:
        heads.append(DIRENT.pack(nid, place, _FILE_TYPE[is_directory], 0))
        place += len(name)
    return b"".join([*heads, *(name for name, _, _ in entries)])


def _inode(  # noqa: PLR0913  # as they stand in the struct
    attributes: Attributes,
    layout: int,
    kind: int,
    number: int,
    links: int,
    size: int,
    data: int,
) -> bytes:
    return INODE.pack(
        _EXTENDED | layout,
        0,
        kind | attributes.mode,
        0,
        size,
        data,
        number,
        attributes.uid,
        attributes.gid,
        *_time(attributes.mtime_ns),
        links,
    )


def _time(mtime_ns: int) -> tuple[int, int]:
    seconds, nanoseconds = divmod(mtime_ns, 1_000_000_000)
    return seconds % (1 << 64), nanoseconds  # before 1970 it is negative; the kernel reads it as signed


def _crc32c(data: bytes) -> int:
    """CRC-32C as EROFS uses it: the start value is all ones, and the end value is not inverted."""
    table = []
    for number in range(256):
        for _ in range(8):
            number = number >> 1 ^ (_POLYNOMIAL if number & 1 else 0)  # noqa: PLW2901  # shifted bit by bit
        table.append(number)
    value = 0xFFFFFFFF
    for byte in data:
        value = table[(value ^ byte) & 0xFF] ^ value >> 8
    return value
