"""Whatever way a mounted file is read, it has the planned bytes."""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from present.plans import expected

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from pathlib import Path

    from present.conftest import Served

MIB = 1 << 20
FILE = "model.bin"


def uncache(path: Path) -> None:
    """Drop the mount's cached pages of a file, so that the server is asked again."""
    descriptor = os.open(path, os.O_RDONLY)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)


def test_every_file_reads_as_planned(shared: Served) -> None:
    """From the start to the end, in all directories, and the empty one too."""
    for path in (FILE, "sub/other.bin", "sub/deep/small", "empty"):
        assert (shared.path / path).read_bytes() == expected(shared.source / path)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(offset=st.integers(0, 6 * MIB), size=st.integers(0, 3 * MIB), cold=st.booleans())
def test_any_pread_is_the_part_of_the_planned_bytes(
    shared: Served,
    offset: int,
    size: int,
    cold: bool,  # noqa: FBT001 - a parameter of the property
) -> None:
    """At any offset and of any size, cached or not."""
    path = shared.path / FILE
    if cold:
        uncache(path)
    with path.open("rb", buffering=0) as stream:
        assert (
            os.pread(stream.fileno(), size, offset) == expected(shared.source / FILE)[offset : offset + size]
        )


@pytest.mark.parametrize("flags", [mmap.MAP_SHARED, mmap.MAP_PRIVATE], ids=["shared", "private"])
def test_mmap_has_the_planned_bytes(shared: Served, flags: int) -> None:
    """Both kinds of mapping work: safetensors uses private ones, torch shared ones."""
    content = expected(shared.source / FILE)
    uncache(shared.path / FILE)
    with (
        (shared.path / FILE).open("rb") as stream,
        mmap.mmap(stream.fileno(), 0, flags, mmap.PROT_READ) as mapped,
    ):
        for offset in (len(content) - 1, 3 * MIB + 5, 0):
            assert mapped[offset] == content[offset]
        assert mapped[:] == content


@pytest.mark.parametrize("offset", [0, 4096, 5 * MIB], ids=["head", "middle", "end"])
def test_o_direct_has_the_planned_bytes(shared: Served, offset: int) -> None:
    """Opening with O_DIRECT succeeds and reads past the page cache."""
    content = expected(shared.source / FILE)
    descriptor = os.open(shared.path / FILE, os.O_RDONLY | os.O_DIRECT)
    buffer = mmap.mmap(-1, 2 * MIB)
    done = os.preadv(descriptor, [buffer], offset)
    os.close(descriptor)
    assert buffer[:done] == content[offset : offset + 2 * MIB]


def test_sendfile_has_the_planned_bytes(shared: Served, tmp_path: Path) -> None:
    """As a web server or a copy tool uses it."""
    content = expected(shared.source / FILE)
    with (shared.path / FILE).open("rb") as source, (tmp_path / "copy").open("wb") as target:
        done = 0
        while more := os.sendfile(target.fileno(), source.fileno(), done, len(content)):
            done += more
    assert (tmp_path / "copy").read_bytes() == content


def test_copy_tools_copy(shared: Served, tmp_path: Path) -> None:
    """Cp probes for holes and reflinks first; it must fall back."""
    subprocess.run(["cp", "-r", shared.path / "sub", tmp_path / "copy"], check=True)
    assert (tmp_path / "copy" / "deep" / "small").read_bytes() == expected(
        shared.source / "sub" / "deep" / "small"
    )


_READER = """
import random, sys
chance = random.Random(int(sys.argv[3]))
source = open(sys.argv[2], "rb").read()
with open(sys.argv[1], "rb", buffering=0) as stream:
    for _ in range(200):
        offset, size = chance.randrange(len(source)), chance.randrange(1, 1 << 20)
        stream.seek(offset)
        data = stream.read(size)
        assert data == source[offset:offset + len(data)] and data, (offset, size)
"""


def test_eight_interleaved_readers_each_get_their_bytes(
    source_dir: Path, serving: Callable[[Path], AbstractContextManager[Served]], tmp_path: Path
) -> None:
    """Eight processes at random offsets of one file, with the page cache dropped under them."""
    plain = tmp_path / "plain"
    plain.write_bytes(expected(source_dir / FILE))
    with serving(source_dir) as mount:
        readers = [
            subprocess.Popen([sys.executable, "-c", _READER, mount.path / FILE, plain, str(number)])
            for number in range(8)
        ]
        while any(reader.poll() is None for reader in readers):
            uncache(mount.path / FILE)
        assert [reader.returncode for reader in readers] == [0] * 8


def test_a_changed_source_is_an_error_to_the_reader(served: Served) -> None:
    """EIO rather than wrong bytes, and one line in the server's log."""
    path = served.path / FILE
    os.truncate(served.source / FILE, 1000)
    for _ in range(3):
        with pytest.raises(OSError, match="Input/output error"), path.open("rb", buffering=0) as stream:
            os.pread(stream.fileno(), 4096, 2 * MIB)
    subprocess.run(["umount", served.path], check=True)
    code, log = served.end()
    assert code == 0
    assert log.count("changed since it was planned") == 1
    assert f"{served.source / FILE}: " in log
