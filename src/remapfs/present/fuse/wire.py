"""The FUSE protocol's numbers and structs, as include/uapi/linux/fuse.h of Linux 6.18 defines them.

All integers are in the machine's byte order. Nothing here does I/O.
"""

from __future__ import annotations

import mmap
import struct
from dataclasses import dataclass
from enum import IntEnum, IntFlag
from typing import Final

MAJOR: Final = 7
MINOR: Final = 45
ROOT_ID: Final = 1
# A pipe of 1 MiB, the largest that anybody may make, has room for the header of an answer and this.
MAX_READ: Final = (1 << 20) - mmap.PAGESIZE
MAX_PAGES: Final = 256
MAX_WRITE: Final = 1 << 16
# Until Linux 6.18 a read of /dev/fuse fails if its buffer cannot take a write request of MAX_WRITE.
REQUEST_SIZE: Final = MAX_WRITE + 4096

IN_HEADER: Final = struct.Struct("=IIQQIIIHH")
"""fuse_in_header: length, opcode, unique, node id, uid, gid, pid, extension length, padding."""
OUT_HEADER: Final = struct.Struct("=IiQ")
"""fuse_out_header: length, negative errno or 0, unique."""
ATTR: Final = struct.Struct("=QQQQQQIIIIIIIIII")
"""fuse_attr: ino, size, blocks, three times in s and ns, mode, links, uid, gid, rdev, block size, flags."""
ATTR_OUT: Final = struct.Struct("=QII")
"""fuse_attr_out without its fuse_attr: validity in s and ns, padding."""
ENTRY_OUT: Final = struct.Struct("=QQQQII")
"""fuse_entry_out without its fuse_attr: node id, generation, entry and attribute validity in s and ns."""
DIRENT: Final = struct.Struct("=QQII")
"""fuse_dirent without its name: ino, offset of the next entry, name length, type."""
READ_IN: Final = struct.Struct("=QQIIQII")
"""fuse_read_in: file handle, offset, size, read flags, lock owner, open flags, padding."""
INIT_IN: Final = struct.Struct("=IIII")
"""fuse_init_in up to 7.35: major, minor, maximum read-ahead, flags; newer kernels send 48 bytes more."""
INIT_OUT: Final = struct.Struct("=IIIIHHIIH34x")
"""fuse_init_out: major, minor, maximum read-ahead, flags, background requests, congestion threshold,
maximum write, time granularity in ns, maximum pages; the rest is not used."""
STATFS_OUT: Final = struct.Struct("=QQQQQIIII24x")
"""fuse_statfs_out: blocks, free, available, files, free files, block size, name length, fragment size."""

BODY: Final = IN_HEADER.size
"""Where a request's own struct begins."""


class Opcode(IntEnum):
    """enum fuse_opcode."""

    LOOKUP = 1
    FORGET = 2
    GETATTR = 3
    SETATTR = 4
    READLINK = 5
    SYMLINK = 6
    MKNOD = 8
    MKDIR = 9
    UNLINK = 10
    RMDIR = 11
    RENAME = 12
    LINK = 13
    OPEN = 14
    READ = 15
    WRITE = 16
    STATFS = 17
    RELEASE = 18
    FSYNC = 20
    SETXATTR = 21
    GETXATTR = 22
    LISTXATTR = 23
    REMOVEXATTR = 24
    FLUSH = 25
    INIT = 26
    OPENDIR = 27
    READDIR = 28
    RELEASEDIR = 29
    FSYNCDIR = 30
    GETLK = 31
    SETLK = 32
    SETLKW = 33
    ACCESS = 34
    CREATE = 35
    INTERRUPT = 36
    BMAP = 37
    DESTROY = 38
    IOCTL = 39
    POLL = 40
    NOTIFY_REPLY = 41
    BATCH_FORGET = 42
    FALLOCATE = 43
    READDIRPLUS = 44
    RENAME2 = 45
    LSEEK = 46
    COPY_FILE_RANGE = 47
    SETUPMAPPING = 48
    REMOVEMAPPING = 49
    SYNCFS = 50
    TMPFILE = 51
    STATX = 52
    COPY_FILE_RANGE_64 = 53


class InitFlag(IntFlag):
    """The FUSE_* flags of INIT that this server may set."""

    ASYNC_READ = 1 << 0
    BIG_WRITES = 1 << 5
    DO_READDIRPLUS = 1 << 13
    ASYNC_DIO = 1 << 15
    NO_OPEN_SUPPORT = 1 << 17
    PARALLEL_DIROPS = 1 << 18
    ABORT_ERROR = 1 << 21
    MAX_PAGES = 1 << 22
    NO_OPENDIR_SUPPORT = 1 << 24
    EXPLICIT_INVAL_DATA = 1 << 25
    INIT_EXT = 1 << 30


_WANTED: Final = int(
    InitFlag.ASYNC_READ
    | InitFlag.BIG_WRITES
    | InitFlag.DO_READDIRPLUS
    | InitFlag.ASYNC_DIO
    | InitFlag.NO_OPEN_SUPPORT
    | InitFlag.PARALLEL_DIROPS
    | InitFlag.ABORT_ERROR
    | InitFlag.MAX_PAGES
    | InitFlag.NO_OPENDIR_SUPPORT
    | InitFlag.EXPLICIT_INVAL_DATA
    | InitFlag.INIT_EXT
)
# By default 12 requests are in flight and read-ahead stops at 9; a slow disk needs more (3.8 times the
# throughput at 10 ms a read), and beyond 64 nothing more was gained.
_MAX_BACKGROUND: Final = 64
_CONGESTION: Final = 48
# A year: what a plan says never changes while it is mounted.
_VALID_SECONDS: Final = 365 * 86400


@dataclass(frozen=True, slots=True)
class InitRequest:
    """What the kernel offers in INIT; `read_ahead` is in bytes."""

    major: int
    minor: int
    read_ahead: int
    flags: int


def unpack_init(request: memoryview) -> InitRequest:
    """Read an INIT request."""
    return InitRequest(*INIT_IN.unpack_from(request, BODY))


def init_reply(offer: InitRequest, read_ahead: int) -> bytes:
    """Answer INIT: the wanted flags that are offered, and a read-ahead of at most `read_ahead` bytes."""
    return INIT_OUT.pack(
        MAJOR,
        min(offer.minor, MINOR),
        read_ahead,
        offer.flags & _WANTED,
        _MAX_BACKGROUND,
        _CONGESTION,
        MAX_WRITE,
        1,
        MAX_PAGES,
    )


def whole_reads(read_ahead: int) -> int:
    """Round a read-ahead in bytes down so that it is asked for in full requests, without a small last one."""
    return read_ahead // MAX_READ * MAX_READ or read_ahead


@dataclass(frozen=True, slots=True)
class Stat:
    """What the kernel is told about a node: `mode` with the file type, `size` in bytes, one time for all."""

    ino: int
    size: int
    mode: int
    links: int
    uid: int
    gid: int
    mtime_ns: int


def attr(stat: Stat) -> bytes:
    """Pack fuse_attr (88 bytes)."""
    seconds, nanoseconds = divmod(stat.mtime_ns, 1_000_000_000)
    seconds %= 1 << 64  # times before 1970 are negative; the kernel reads the field as signed
    return ATTR.pack(
        stat.ino,
        stat.size,
        (stat.size + 511) // 512,
        seconds,
        seconds,
        seconds,
        nanoseconds,
        nanoseconds,
        nanoseconds,
        stat.mode,
        stat.links,
        stat.uid,
        stat.gid,
        0,
        4096,
        0,
    )


def attr_reply(packed_attr: bytes) -> bytes:
    """Pack fuse_attr_out (104 bytes), valid for long."""
    return ATTR_OUT.pack(_VALID_SECONDS, 0, 0) + packed_attr


def entry_reply(ino: int, packed_attr: bytes) -> bytes:
    """Pack fuse_entry_out (128 bytes), valid for long."""
    return ENTRY_OUT.pack(ino, 0, _VALID_SECONDS, _VALID_SECONDS, 0, 0) + packed_attr


NO_ENTRY: Final = ENTRY_OUT.pack(0, 0, _VALID_SECONDS, 0, 0, 0) + bytes(ATTR.size)
"""The answer to LOOKUP that lets the kernel remember that a name does not exist."""
UNLINKED_ENTRY: Final = bytes(ENTRY_OUT.size + ATTR.size)
"""The fuse_entry_out of `.` and `..` in READDIRPLUS, which the kernel does not look at."""


def dirent(ino: int, next_offset: int, mode: int, name: bytes) -> bytes:
    """Pack fuse_dirent with its name, padded to 8 bytes; `mode` is the node's, with its file type."""
    return DIRENT.pack(ino, next_offset, len(name), mode >> 12) + name + bytes(-len(name) % 8)


def statfs_reply(total: int, files: int) -> bytes:
    """Pack fuse_statfs_out (80 bytes) of a full file system with `total` bytes in `files` nodes."""
    block = 4096
    return STATFS_OUT.pack(-(-total // block), 0, 0, files, 0, block, 255, block, 0)


AGREED: Final = (MAJOR, _WANTED, MAX_READ, MAX_PAGES, MAX_WRITE)
"""What a mount's kernel side was told once and for all: a server that says otherwise cannot continue it."""
RESEND: Final = OUT_HEADER.pack(OUT_HEADER.size, 7, 0)
"""FUSE_NOTIFY_RESEND: what was read and not answered is handed out again, with bit 63 of its unique set."""


def error_reply(unique: int, number: int) -> bytes:
    """Pack a whole reply that says that the request failed with errno `number`."""
    return OUT_HEADER.pack(OUT_HEADER.size, -number, unique)
