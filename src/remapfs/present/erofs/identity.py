"""What tells one mount from another: a UUID made of the plan."""

from __future__ import annotations

import fcntl
import os
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from remapfs.plan.extents import Literal
from remapfs.present.erofs.ondisk import SUPERBLOCK_START

if TYPE_CHECKING:
    from remapfs.checkpoint.source import Attributes
    from remapfs.plan.model import Plan

# To be changed with the layout of images.
_VERSION: Final = "remapfs erofs 1"
_FS_IOC_GETFSUUID: Final = 0x80111500  # include/uapi/linux/fs.h, since Linux 6.9
_LENGTH: Final = 16
_UUID_START: Final = SUPERBLOCK_START + 48


def uuid_of(plan: Plan) -> bytes:
    """Make a UUID that two plans share only if they show the same bytes of the same, unchanged sources."""
    digest = blake2b(_VERSION.encode(), digest_size=_LENGTH)

    def add(*fields: object) -> None:
        digest.update(repr(fields).encode())

    for directory in plan.directories:
        add(directory.path, *_fields(directory.attributes))
    for file in plan.files:
        add(file.path, *_fields(file.attributes))
        for extent in file.extents:
            if isinstance(extent, Literal):
                add(extent.length)
                digest.update(extent.data)
            else:
                source = extent.source
                add(source.path, source.size, source.mtime_ns, source.dev, source.ino)
                add(extent.offset, extent.length)
    return digest.digest()


def uuid_at(path: str) -> bytes | None:
    """Ask the EROFS file system that is mounted at `path` for its UUID; None if that cannot be found."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return fcntl.ioctl(descriptor, _FS_IOC_GETFSUUID, bytes(1 + _LENGTH))[1:]
    except OSError:
        return _uuid_on(os.fstat(descriptor).st_dev)
    finally:
        os.close(descriptor)


def _uuid_on(device: int) -> bytes | None:
    """Read the UUID of the image on a loop device, as kernels need that do not tell."""
    name = os.path.basename(os.path.realpath(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}"))
    try:
        with open(f"/dev/{name}", "rb", buffering=0) as stream:
            return os.pread(stream.fileno(), _LENGTH, _UUID_START)
    except OSError:
        return None


def _fields(attributes: Attributes) -> tuple[int, ...]:
    return attributes.mode, attributes.uid, attributes.gid, attributes.mtime_ns
