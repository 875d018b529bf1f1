"""A reader of EROFS images over several files, written from the format's description and as simple as can be.

It shares nothing with the package, and fails where the kernel would: at a block that a device does not have
whole, and at entries that are not sorted, which the kernel searches by halving.
"""

from __future__ import annotations

import stat
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

BLOCK = 4096
KINDS = {1: stat.S_IFREG, 2: stat.S_IFDIR}


@dataclass(frozen=True)
class Inode:
    """An inode with its data."""

    nid: int
    mode: int
    size: int
    number: int
    uid: int
    gid: int
    mtime_ns: int
    links: int
    data: bytes
    devices: tuple[int, ...]


@dataclass
class Image:
    """An image and the content of its devices, in the order of their slots."""

    image: bytes
    devices: Sequence[bytes]
    inodes: dict[str, Inode] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check the superblock and read everything."""
        assert len(self.image) % BLOCK == 0
        assert self.number(1024, 4) == 0xE0F5E1E2
        assert self.number(1024 + 12, 1) == 12
        assert self.number(1024 + 4, 4) == checksum(self.image)
        assert self.number(1024 + 36, 4) * BLOCK == len(self.image)
        assert self.number(1024 + 86, 2) == len(self.devices)
        self.slots = self.number(1024 + 88, 2) * 128
        for index, device in enumerate(self.devices):
            assert self.number(self.slots + 128 * index + 64, 4) == len(device) // BLOCK
            assert self.number(self.slots + 128 * index + 68, 4) * BLOCK > len(self.image)
        self.metadata = self.number(1024 + 40, 4) * BLOCK
        self.walk("", self.number(1024 + 14, 2), None)
        assert len(self.inodes) == self.number(1024 + 16, 8)

    def number(self, at: int, length: int) -> int:
        """Read an integer."""
        return int.from_bytes(self.image[at : at + length], "little")

    def block(self, device: int, number: int) -> bytes:
        """Read a block, which must be whole; device 0 is the image."""
        content = self.devices[device - 1] if device else self.image
        data = content[number * BLOCK : (number + 1) * BLOCK]
        assert len(data) == BLOCK, f"EIO: block {number} of device {device}"
        return data

    def inode(self, nid: int) -> Inode:
        """Read an inode and its data."""
        at = self.metadata + 32 * nid
        form, attributes, mode = (self.number(at + 2 * index, 2) for index in range(3))
        size, start = self.number(at + 8, 8), self.number(at + 16, 4)
        assert form & 1, "an inode of 64 bytes"
        assert attributes == 0
        blocks = -(-size // BLOCK)
        if form >> 1 == 0:
            places = [(0, start + index) for index in range(blocks)]
        else:
            assert form >> 1 == 4
            assert start & ~0x1F == 0x20
            chunk = 1 << (start & 0x1F)
            places = []
            for index in range(blocks):
                entry = at + 64 + 8 * (index // chunk)
                assert self.number(entry, 2) == 0
                places.append((self.number(entry + 2, 2), self.number(entry + 4, 4) + index % chunk))
        data = b"".join(self.block(*place) for place in places)
        if not stat.S_ISDIR(mode):
            # A mapping shows the rest of the last page: it has to be empty.
            assert not any(data[size:])
        seconds = int.from_bytes(self.image[at + 32 : at + 40], "little", signed=True)
        return Inode(
            nid,
            mode,
            size,
            self.number(at + 20, 4),
            self.number(at + 24, 4),
            self.number(at + 28, 4),
            seconds * 1_000_000_000 + self.number(at + 40, 4),
            self.number(at + 44, 4),
            data[:size],
            tuple(device for device, _ in places),
        )

    def walk(self, path: str, nid: int, parent: int | None) -> None:
        """Read a directory or file and what is below it."""
        inode = self.inodes[path] = self.inode(nid)
        if not stat.S_ISDIR(inode.mode):
            return
        names = []
        for name, target, kind in entries(inode.data):
            names.append(name)
            if name == b".":
                assert target == nid
            elif name == b"..":
                assert target == (nid if parent is None else parent)
            else:
                below = name.decode(errors="surrogateescape")
                self.walk(f"{path}/{below}" if path else below, target, nid)
                assert KINDS[kind] == stat.S_IFMT(self.inodes[f"{path}/{below}" if path else below].mode)
        assert names == sorted(set(names))
        assert {b".", b".."} <= set(names)


def entries(data: bytes) -> list[tuple[bytes, int, int]]:
    """Read a directory's entries: name, node id and type."""
    found = []
    for start in range(0, len(data), BLOCK):
        block = data[start : start + BLOCK]
        count = int.from_bytes(block[8:10], "little") // 12
        heads = [block[12 * index : 12 * (index + 1)] for index in range(count)]
        starts = [int.from_bytes(head[8:10], "little") for head in heads]
        for head, begin, end in zip(heads, starts, [*starts[1:], len(block)], strict=True):
            found.append((block[begin:end].rstrip(b"\0"), int.from_bytes(head[:8], "little"), head[10]))
    return found


def checksum(image: bytes) -> int:
    """Compute the superblock's checksum: CRC-32C, bit by bit, of the first block from the superblock on."""
    value = 0xFFFFFFFF
    for byte in image[1024:1028] + bytes(4) + image[1032:BLOCK]:
        value ^= byte
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
    return value
