"""The plain reader is an ordinary binary stream."""

from __future__ import annotations

import errno
import io
import os
from typing import TYPE_CHECKING

import pytest

from present.plans import expected, virtual
from remapfs.present.reader import open_file

if TYPE_CHECKING:
    from pathlib import Path


def test_it_reads_the_whole_file(source_dir: Path) -> None:
    """The head that remapfs wrote, then the source's bytes."""
    path = source_dir / "model.bin"
    with open_file(virtual(path, "model.bin")) as stream:
        assert stream.read() == expected(path)
        assert stream.read() == b""


def test_it_seeks_as_a_file_does(source_dir: Path) -> None:
    """From the start, the position and the end; there is nothing beyond the end."""
    path = source_dir / "model.bin"
    content = expected(path)
    with open_file(virtual(path, "model.bin")) as stream:
        assert stream.readable()
        assert stream.seekable()
        assert stream.seek(10) == 10
        assert stream.seek(10, os.SEEK_CUR) == 20
        assert stream.read(30) == content[20:50]
        assert stream.tell() == 50
        assert stream.seek(-5, os.SEEK_END) == len(content) - 5
        assert stream.read(100) == content[-5:]
        assert stream.seek(1 << 40) == 1 << 40
        assert stream.read(1) == b""
        with pytest.raises(ValueError, match="before the start"):
            stream.seek(-1)
        with pytest.raises(ValueError, match="whence"):
            stream.seek(0, 9)


def test_it_can_be_buffered(source_dir: Path) -> None:
    """io.BufferedReader accepts it, as it accepts any raw stream."""
    path = source_dir / "model.bin"
    with io.BufferedReader(open_file(virtual(path, "model.bin"))) as stream:
        assert stream.read(7) + stream.read() == expected(path)


def test_an_empty_file_is_empty(source_dir: Path) -> None:
    """It has no extents."""
    with open_file(virtual(source_dir / "empty", "empty")) as stream:
        assert stream.read() == b""


def test_it_cannot_be_used_when_closed(source_dir: Path) -> None:
    """As any closed stream."""
    stream = open_file(virtual(source_dir / "empty", "empty"))
    stream.close()
    for use in (stream.tell, stream.read, lambda: stream.seek(0)):
        with pytest.raises(ValueError, match="closed"):
            use()


def test_a_changed_source_is_an_error(source_dir: Path) -> None:
    """EIO, with what changed."""
    path = source_dir / "model.bin"
    stream = open_file(virtual(path, "model.bin"))
    os.truncate(path, 100)
    with pytest.raises(OSError, match="size was") as failure:
        stream.read(10_000)
    assert failure.value.errno == errno.EIO
