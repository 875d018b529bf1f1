"""The protocol's structs are those of the kernel."""

from __future__ import annotations

import struct

import pytest

from remapfs.present.fuse import wire
from remapfs.present.fuse.wire import InitFlag, InitRequest, Stat


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("IN_HEADER", 40),
        ("OUT_HEADER", 16),
        ("ATTR", 88),
        ("ATTR_OUT", 16),
        ("ENTRY_OUT", 40),
        ("DIRENT", 24),
        ("READ_IN", 40),
        ("INIT_IN", 16),
        ("INIT_OUT", 64),
        ("STATFS_OUT", 80),
    ],
)
def test_every_struct_has_the_size_of_the_kernels(name: str, size: int) -> None:
    """A struct of another size shifts every field after it."""
    assert getattr(wire, name).size == size


def test_init_reply_sets_only_what_the_kernel_offers() -> None:
    """Flags that an older kernel does not know are not claimed, nor a newer minor version than its own."""
    offered = InitFlag.ASYNC_READ | InitFlag.MAX_PAGES
    reply = wire.init_reply(InitRequest(7, 31, 131072, offered), 1 << 22)
    assert struct.unpack_from("=IIII", reply) == (7, 31, 1 << 22, offered)


def test_init_reply_allows_requests_of_one_mib() -> None:
    """256 pages a request, 64 requests in flight, congestion at 48."""
    reply = wire.init_reply(InitRequest(7, 99, 131072, 0xFFFFFFFF), 1 << 22)
    *_, minor, _, flags, background, congestion, write, granularity, pages, _ = struct.unpack_from(
        "=IIIIHHIIHH", reply
    )
    assert (minor, background, congestion, write, granularity, pages) == (45, 64, 48, 1 << 16, 1, 256)
    unwanted = {"AUTO_INVAL_DATA": 12, "WRITEBACK_CACHE": 16, "POSIX_ACL": 20, "EXPORT_SUPPORT": 4}
    assert not any(flags >> bit & 1 for bit in unwanted.values())


def test_unpack_init_reads_the_short_form_of_old_kernels() -> None:
    """Before 7.36 INIT has four fields and nothing after them."""
    request = memoryview(bytes(wire.BODY) + struct.pack("=IIII", 7, 31, 131072, 5))
    assert wire.unpack_init(request) == InitRequest(7, 31, 131072, 5)


def test_dirent_is_padded_to_eight_bytes() -> None:
    """The kernel finds the next entry at the next multiple of eight."""
    for length in range(1, 18):
        entry = wire.dirent(3, 1, 0o100444, b"n" * length)
        assert len(entry) % 8 == 0
        assert struct.unpack_from("=QQII", entry) == (3, 1, length, 8)


def test_attr_counts_blocks_of_512_bytes() -> None:
    """As stat does; a part of a block counts as one."""
    packed = wire.attr(Stat(2, 513, 0o100444, 1, 5, 6, 1_600_000_000_123_456_789))
    ino, size, blocks, *times, mode, links, uid, gid, _, _, _ = wire.ATTR.unpack(packed)
    assert (ino, size, blocks, mode, links, uid, gid) == (2, 513, 2, 0o100444, 1, 5, 6)
    assert times == [1_600_000_000] * 3 + [123_456_789] * 3


def test_attr_carries_a_time_before_1970() -> None:
    """The seconds are negative then, and the nanoseconds still count upwards."""
    packed = wire.attr(Stat(2, 0, 0o100444, 1, 0, 0, -1))
    assert struct.unpack_from("=q", packed, 24)[0] == -1
    assert struct.unpack_from("=I", packed, 48)[0] == 999_999_999
