"""The pool of open sources: what it reads, how many it opens, and what it does when one changes."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import resource
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

import remapfs
from present.conftest import random_bytes
from present.plans import source_of
from remapfs.checkpoint.source import Attributes
from remapfs.errors import RemapError
from remapfs.plan.extents import Extent, Literal, Slice, VirtualFile
from remapfs.present import sources
from remapfs.present.preadv import from_libc
from remapfs.present.reader import open_file
from remapfs.present.sources import SourcePool

if TYPE_CHECKING:
    from collections.abc import Iterator

    from remapfs.checkpoint.source import Source

ATTRIBUTES = Attributes(0o444, 0, 0, 0)
WAYS = {"RWF_DONTCACHE": (6, 16), "RWF_NOWAIT": (6, 15)}


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Read as on a newer kernel, and as on an older one."""
    monkeypatch.setattr(sources, "_kernel_version", lambda: WAYS[request.param])
    return str(request.param)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Source, Source]:
    """Make two sources with different bytes."""
    root = tmp_path_factory.mktemp("pair")
    for number in (1, 2):
        (root / str(number)).write_bytes(random_bytes(50_000, number))
    return source_of(root / "1"), source_of(root / "2")


def make(path: Path, size: int = 100_000) -> tuple[Source, VirtualFile]:
    """Make a source of random bytes, and a virtual file that is all of it."""
    path.write_bytes(random_bytes(size, 7))
    source = source_of(path)
    return source, VirtualFile.of(path.name, (Slice(source, 0, size),), ATTRIBUTES)


def read(pool: SourcePool, file: VirtualFile, offset: int, size: int) -> bytes:
    """Read through the pool, and check that nothing beyond the result is touched."""
    buffer = bytearray(b"\xaa" * (size + 8))
    done = pool.read_into(file, offset, size, memoryview(buffer))
    assert buffer[done:] == b"\xaa" * (size + 8 - done)
    return bytes(buffer[:done])


@given(data=st.data())
def test_any_read_of_any_extents_is_the_part_of_their_concatenation(
    pair: tuple[Source, Source], data: st.DataObject
) -> None:
    """As a naive concatenation of all extents has it, and as the plain reader has it."""
    lengths = st.integers(1, 20_000)
    literals = st.builds(Literal, st.binary(min_size=1, max_size=5000))
    slices = st.builds(Slice, st.sampled_from(pair), st.integers(0, 30_000), lengths)
    extents: list[Extent] = data.draw(st.lists(st.one_of(literals, slices), max_size=8))
    file = VirtualFile.of("f", extents, ATTRIBUTES)
    whole = b"".join(
        extent.data
        if isinstance(extent, Literal)
        else Path(extent.source.path).read_bytes()[extent.offset : extent.offset + extent.length]
        for extent in extents
    )
    pool = SourcePool(pair)
    try:
        for _ in range(3):
            offset, size = data.draw(st.integers(0, 100_000)), data.draw(st.integers(0, 100_000))
            assert read(pool, file, offset, size) == whole[offset : offset + size]
            with open_file(file) as stream:
                stream.seek(offset)
                assert stream.read(size) == whole[offset : offset + size]
    finally:
        pool.close()


@pytest.mark.usefixtures("way")
def test_cold_and_warm_reads_are_the_same(tmp_path: Path) -> None:
    """With the source in the page cache, in part, and not at all."""
    source, file = make(tmp_path / "source", 3_000_000)
    content = Path(source.path).read_bytes()
    pool = SourcePool([source])
    descriptor = os.open(source.path, os.O_RDONLY)
    os.fsync(descriptor)
    for cached in (0, 700_000, len(content)):
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.pread(descriptor, cached, 0)
        for offset, size in ((0, 1 << 20), (654_321, 1 << 20), (2_500_000, 1 << 20)):
            assert read(pool, file, offset, size) == content[offset : offset + size]
    os.close(descriptor)
    pool.close()


def test_libcs_preadv2_reads_what_pythons_does(tmp_path: Path) -> None:
    """Portable builds of Python have no flags for preadv; the C library's own function is used there."""
    path = tmp_path / "source"
    path.write_bytes(b"0123456789")
    buffer = bytearray(4)
    with path.open("rb") as stream:
        assert from_libc(stream.fileno(), memoryview(buffer), 3, 0) == 4
        assert buffer == b"3456"
        with pytest.raises(OSError, match="Operation not supported"):
            from_libc(stream.fileno(), memoryview(buffer), 3, 1 << 30)


def test_a_file_system_without_the_flags_is_read_plainly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """EOPNOTSUPP steps down one way at a time, once for each source."""
    asked = []

    def refuse(descriptor: int, view: memoryview, offset: int, flags: int) -> int:
        asked.append(flags)
        if flags:
            raise OSError(errno.EOPNOTSUPP, "refused")
        return os.preadv(descriptor, [view], offset)

    monkeypatch.setattr(sources, "_kernel_version", lambda: (6, 16))
    monkeypatch.setattr(sources, "preadv2", refuse)
    source, file = make(tmp_path / "source")
    pool = SourcePool([source])
    content = Path(source.path).read_bytes()
    assert read(pool, file, 0, 1000) == content[:1000]
    assert read(pool, file, 5, 1000) == content[5:1005]
    assert asked == [0x80, 0x8, 0, 0]
    pool.close()


def test_a_short_read_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A network file system may give less than was asked for."""

    def stingy(descriptor: int, view: memoryview, offset: int, flags: int) -> int:
        return os.preadv(descriptor, [view[:100]], offset, flags)

    monkeypatch.setattr(sources, "preadv2", stingy)
    source, file = make(tmp_path / "source")
    pool = SourcePool([source])
    assert read(pool, file, 0, 5000) == Path(source.path).read_bytes()[:5000]
    pool.close()


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize(
    ("change", "field"),
    [
        (lambda path: path.write_bytes(b"x" * 100_000), "mtime_ns"),
        (lambda path: os.truncate(path, 5), "size"),
        (lambda path: os.utime(path, ns=(1, 1)), "mtime_ns"),
    ],
    ids=["overwritten", "truncated", "touched"],
)
def test_a_changed_source_is_an_error_with_one_log_line(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    change: object,
    field: str,
) -> None:
    """Every read fails with EIO from then on; the log names the file and what changed, once."""
    source, file = make(tmp_path / "source")
    os.utime(source.path, ns=(0, 0))
    source = source_of(Path(source.path))
    file = VirtualFile.of("f", (Slice(source, 0, source.size),), ATTRIBUTES)
    pool = SourcePool([source])
    assert callable(change)
    change(Path(source.path))
    for _ in range(3):
        with pytest.raises(OSError, match="changed since it was planned") as failure:
            read(pool, file, 0, 1000)
        assert failure.value.errno == errno.EIO
    assert len(caplog.records) == 1
    assert source.path in caplog.text
    assert f"{field} was" in caplog.text
    pool.close()


def test_a_source_without_the_planned_bytes_is_an_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """When nothing seems to have changed: the log names the file and the byte."""
    source, _ = make(tmp_path / "source", 1000)
    file = VirtualFile.of("f", (Slice(source, 500, 1000),), ATTRIBUTES)
    pool = SourcePool([source])
    with pytest.raises(OSError, match="gives no bytes at byte 1000"):
        read(pool, file, 0, 1000)
    assert source.path in caplog.text
    pool.close()


def test_a_source_that_is_gone_or_changed_is_refused_at_the_start(tmp_path: Path) -> None:
    """Before anything is mounted, and naming the file."""
    source, _ = make(tmp_path / "source")
    os.truncate(source.path, 1)
    with pytest.raises(RemapError, match="source: changed since it was planned: size was 100000, is 1"):
        SourcePool([source])
    Path(source.path).unlink()
    with pytest.raises(RemapError, match="source: cannot be opened: No such file"):
        SourcePool([source])


def test_an_open_source_survives_its_removal(tmp_path: Path) -> None:
    """The inode is pinned: replacing the file by another does not change what is served."""
    source, file = make(tmp_path / "source")
    content = Path(source.path).read_bytes()
    pool = SourcePool([source])
    Path(source.path).unlink()
    make(tmp_path / "source", 10)
    assert read(pool, file, 0, 1000) == content[:1000]
    pool.close()


def test_a_reopened_source_must_be_the_same_file(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """When the limit does not allow to pin it, a file put in its place is noticed."""
    first, file = make(tmp_path / "first")
    second, other = make(tmp_path / "second")
    pool = SourcePool([first, second], limit=1)
    read(pool, other, 0, 10)
    (tmp_path / "new").write_bytes(Path(first.path).read_bytes())
    os.utime(tmp_path / "new", ns=(first.mtime_ns, first.mtime_ns))
    (tmp_path / "new").rename(first.path)
    with pytest.raises(OSError, match="inode was"):
        read(pool, file, 0, 10)
    assert len(caplog.records) == 1
    pool.close()


def test_the_least_recently_used_source_is_closed(tmp_path: Path) -> None:
    """With a limit of two, three sources are read in turn and never more than two are open."""
    made = [make(tmp_path / str(number)) for number in range(3)]
    pool = SourcePool([source for source, _ in made], limit=2)
    for _ in range(3):
        for _, file in made:
            read(pool, file, 0, 100)
            assert pool.opened == 2
    pool.close()


def test_many_threads_share_few_descriptors(tmp_path: Path) -> None:
    """Sources that are being read are not closed, whatever the limit."""
    made = [make(tmp_path / str(number), 300_000) for number in range(20)]
    pool = SourcePool([source for source, _ in made], limit=2)

    def check(number: int) -> bool:
        source, file = made[number % 20]
        return read(pool, file, 1234, 200_000) == Path(source.path).read_bytes()[1234:201_234]

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(check, range(400)))
    assert pool.opened <= 2
    pool.close()


_PROGRAM = """
import os, sys
from pathlib import Path
from remapfs.checkpoint.source import Attributes, identify
from remapfs.plan.extents import Slice, VirtualFile
from remapfs.present.sources import SourcePool
root = Path(sys.argv[1])
sources = [identify(str(path), path.stat()) for path in sorted(root.iterdir())]
pool = SourcePool(sources)
buffer = memoryview(bytearray(8))
for source in sources:
    pool.read_into(VirtualFile.of("f", (Slice(source, 0, 8),), Attributes(0o444, 0, 0, 0)), 0, 8, buffer)
    assert bytes(buffer) == Path(source.path).name.encode(), source
print(len(sources), pool.opened)
"""


@pytest.mark.parametrize(
    ("soft", "hard", "opened"), [(64, 4096, 1500), (1024, 1024, None)], ids=["soft limit", "hard limit"]
)
def test_1500_sources_work_with_few_descriptors(
    tmp_path: Path, soft: int, hard: int, opened: int | None
) -> None:
    """A low soft limit is raised, so that all stay open; under a low hard limit they take turns."""
    for number in range(1500):
        (tmp_path / f"{number:08}").write_text(f"{number:08}")
    run = subprocess.run(
        [sys.executable, "-c", _PROGRAM, tmp_path],
        env={**os.environ, "PYTHONPATH": str(Path(remapfs.__file__).parents[1])},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    read_sources, still_open = map(int, run.stdout.split())
    assert read_sources == 1500
    assert still_open == opened or (opened is None and 500 < still_open < 1000)


@pytest.fixture
def one_core() -> Iterator[None]:
    """Stay on one core: pages on their way to another core's lists cannot be dropped."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    yield
    os.sched_setaffinity(0, before)


@pytest.mark.usefixtures("one_core")
def test_reading_leaves_the_page_cache_as_it_was(tmp_path: Path, way: str) -> None:
    """The kernel caches the mount, so the source need not be cached too; what others cached stays."""
    source, file = make(tmp_path / "source", 32 << 20)
    pool = SourcePool([source])
    descriptor = os.open(source.path, os.O_RDONLY)
    os.fsync(descriptor)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    if _resident(source, 0, source.size) > 0.1:
        pytest.skip("this file system keeps its pages")
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)
    os.pread(descriptor, 8 << 20, 0)
    for offset in range(0, source.size, 1 << 20):
        read(pool, file, offset, 1 << 20)
    assert _resident(source, 0, 8 << 20) > 0.9, way
    assert _resident(source, 8 << 20, 24 << 20) < 0.2, way
    os.close(descriptor)
    pool.close()


def _resident(source: Source, offset: int, size: int) -> float:
    """Say which part of a range of whole pages is in the page cache, without changing that."""
    with (
        Path(source.path).open("rb") as stream,
        mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_COPY) as mapped,
    ):
        pages = (ctypes.c_ubyte * (size // mmap.PAGESIZE))()
        first = ctypes.c_char.from_buffer(mapped, offset)
        failed = ctypes.CDLL(None).mincore(ctypes.byref(first), ctypes.c_size_t(size), pages)
        del first
    assert not failed
    return sum(page & 1 for page in pages) / len(pages)
