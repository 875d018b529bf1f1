"""A virtual file read by plain Python, without a mount."""

from __future__ import annotations

import errno
import io
import os
from typing import TYPE_CHECKING

from remapfs.plan.extents import Literal

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from remapfs.plan.extents import Slice, VirtualFile


class VirtualFileReader(io.RawIOBase):
    """Read one virtual file as a raw binary stream.

    It shares nothing with the servers: each read opens the source, compares its identity, reads and
    closes. That makes it slow, and the reference that they are compared with. A source that changed
    since the plan was made raises OSError with EIO.
    """

    def __init__(self, file: VirtualFile) -> None:
        super().__init__()
        self._file = file
        self._position = 0

    def readable(self) -> bool:
        """Say that it can be read: always."""
        return True

    def seekable(self) -> bool:
        """Say that it can be sought: always."""
        return True

    def tell(self) -> int:
        """Return the position, in bytes from the start."""
        self._check_open()
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move to `offset` from the start, the position or the end, as `whence` says."""
        self._check_open()
        bases = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._file.size}
        if whence not in bases:
            raise ValueError(f"whence must be 0, 1 or 2, not {whence}")
        target = bases[whence] + offset
        if target < 0:
            raise ValueError(f"cannot seek to {target}, before the start")
        self._position = target
        return target

    def readinto(self, buffer: Buffer) -> int:
        """Fill `buffer` from the position on; the number of bytes is smaller only at the file's end."""
        self._check_open()
        view = memoryview(buffer).cast("B")
        done = 0
        for piece in self._file.pieces(self._position, len(view)):
            data = piece.data if isinstance(piece, Literal) else _read(piece)
            view[done : done + len(data)] = data
            done += len(data)
        self._position += done
        return done

    def _check_open(self) -> None:
        if self.closed:
            raise ValueError("the reader is closed")


def open_file(file: VirtualFile) -> VirtualFileReader:
    """Open a virtual file for reading, at its start."""
    return VirtualFileReader(file)


def _read(part: Slice) -> bytes:
    source, offset, length = part.source, part.offset, part.length
    with open(source.path, "rb", buffering=0) as stream:
        difference = source.changed(os.fstat(stream.fileno()))
        if difference:
            raise OSError(errno.EIO, f"changed since it was planned: {difference}", source.path)
        data = b""
        while len(data) < length:
            more = os.pread(stream.fileno(), length - len(data), offset + len(data))
            if not more:
                raise OSError(errno.EIO, f"ends at {offset + len(data)}", source.path)
            data += more
    return data
