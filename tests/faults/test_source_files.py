"""A source file that changes, goes away or cannot be read under a live mount."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from faults.conftest import FIRST, HEADER, SECOND, TENSOR, mounting

if TYPE_CHECKING:
    from faults.conftest import Checkpoint


def test_a_truncated_source_is_an_error_from_there_on(checkpoint: Checkpoint, presenter: str) -> None:
    """EIO to read, SIGBUS to mmap, never other bytes; the other shard is served; the log names the file.

    With erofs the kernel reads by itself: what is left is still right, and nothing is logged.
    """
    expected = checkpoint.expected()
    with mounting(checkpoint, presenter) as mount:
        os.truncate(checkpoint.path / FIRST, TENSOR // 2)
        # The header is remapfs's own and may be read; of the rest, erofs gives what the source still has.
        failed, _, at = mount.read(FIRST).partition(" at ")
        assert failed == "EIO"
        assert int(at) <= (TENSOR // 2 if presenter == "erofs" else HEADER)
        if presenter != "erofs":
            (line,) = [line for line in mount.log.splitlines() if "changed since it was planned" in line]
            assert str(checkpoint.path / FIRST) in line
            assert f"is {TENSOR // 2}" in line
            assert "at byte" in line
        assert mount.read(FIRST, "mmap") == "SIGBUS"
        assert mount.read(SECOND) == expected[SECOND]


def test_a_replaced_source_is_read_on(checkpoint: Checkpoint, presenter: str) -> None:
    """By rename, as downloads and rsync do it: readers get the bytes of the file that was mounted."""
    expected = checkpoint.expected()
    with mounting(checkpoint, presenter) as mount:
        new = checkpoint.path / "new"
        new.write_bytes(b"\xff" * (checkpoint.path / FIRST).stat().st_size)
        new.rename(checkpoint.path / FIRST)
        assert mount.read(FIRST) == expected[FIRST]
        assert mount.read(FIRST, "mmap") == expected[FIRST]


def test_a_deleted_source_is_read_on(checkpoint: Checkpoint, presenter: str) -> None:
    """Its bytes live until the unmount."""
    expected = checkpoint.expected()
    with mounting(checkpoint, presenter) as mount:
        for name in (FIRST, SECOND):
            (checkpoint.path / name).unlink()
        assert mount.read(FIRST) == expected[FIRST]
        assert mount.read(SECOND, "mmap") == expected[SECOND]


def test_a_source_that_is_overwritten_in_place_is_an_error(checkpoint: Checkpoint) -> None:
    """By fuse and fusepy; what was read before stays readable from the page cache, as it was planned."""
    expected = checkpoint.expected()
    with mounting(checkpoint) as mount:
        with (mount.path / FIRST).open("rb") as stream:
            before = stream.read(1 << 20)
            with (checkpoint.path / FIRST).open("r+b") as source:
                source.seek(-10, os.SEEK_END)
                source.write(b"overwrites")
            stream.seek(0)
            assert stream.read(1 << 20) == before
        assert mount.read(FIRST).startswith("EIO at ")
        assert mount.read(SECOND) == expected[SECOND]
