"""Cached pages of a source go to the kernel through a pipe, and nothing else does."""

from __future__ import annotations

import fcntl
import os
from typing import TYPE_CHECKING

import pytest

from present.conftest import random_bytes
from present.plans import expected, plan_of
from remapfs.present.cachestat import is_cached
from remapfs.present.fuse import splicing, wire
from remapfs.present.fuse.server import Server
from remapfs.present.fuse.splicing import Splicer
from remapfs.present.fuse.threads import board
from remapfs.present.fuse.wire import Opcode
from remapfs.present.sources import SourcePool, sources_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

UNIQUE = 7
SIZE = 3 << 20
HEAD = 8192  # at least what is not the source's, a whole number of pages
F_SETPIPE_SZ = 1031


class Device:
    """A pipe in the place of /dev/fuse: what was sent can be read from it."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "model.bin"
        self.path.write_bytes(random_bytes(SIZE, 5))
        os.sync()
        self.data = expected(self.path)
        plan = plan_of(folder)
        self.file = next(file for file in plan.files if file.path == "model.bin")
        self.pool = SourcePool(sources_of(plan))
        self.server = Server(plan, self.pool, 1 << 22)
        self.reading, self.writing = os.pipe2(os.O_NONBLOCK)
        fcntl.fcntl(self.writing, F_SETPIPE_SZ, 1 << 20)
        self.row = board(1).row(0)
        self.splicer = Splicer(self.writing, self.server)

    def close(self) -> None:
        """Close everything."""
        self.splicer.close()
        self.pool.close()
        os.close(self.reading)
        os.close(self.writing)

    def ask(self, offset: int, size: int, opcode: int = Opcode.READ) -> bool:
        """Ask for bytes of the file as the kernel would."""
        body = wire.READ_IN.pack(0, offset, size, 0, 0, 0, 0)
        node = next(number for number, file in enumerate(self.server._files) if file == self.file)  # noqa: SLF001 - node ids are the server's
        header = wire.IN_HEADER.pack(wire.BODY + len(body), opcode, UNIQUE, node, 0, 0, 1, 0, 0)
        return self.splicer.answer(memoryview(header + body), self.row)

    def sent(self) -> bytes:
        """Give the body of the answer that was sent, or nothing."""
        pieces = []
        try:
            while piece := os.read(self.reading, 1 << 20):
                pieces.append(piece)
        except BlockingIOError:
            pass
        answer = b"".join(pieces)
        if answer:
            assert wire.OUT_HEADER.unpack_from(answer) == (len(answer), 0, UNIQUE)
        return answer[wire.OUT_HEADER.size :]

    def cache_only(self, ranges: list[tuple[int, int]]) -> None:
        """Have these parts of the source in the page cache and no others, but for the rest of their pages."""
        with self.path.open("rb", buffering=0) as stream:
            os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
            for offset, length in ranges:
                os.pread(stream.fileno(), length, offset)


@pytest.fixture
def device(tmp_path: Path) -> Iterator[Device]:
    """Make a server of one file, and a pipe that its answers go to."""
    folder = tmp_path / "source"
    folder.mkdir()
    made = Device(folder)
    try:
        is_cached(os.dup(made.reading), 0, 1)
    except OSError as error:
        if error.errno == 38:  # ENOSYS
            pytest.skip("the kernel has no cachestat(2): Linux 6.5")
    yield made
    made.close()


@pytest.mark.parametrize(
    ("offset", "size"),
    [
        (HEAD, 65536),
        (1 << 20, wire.MAX_READ),
        (1 << 20, 1 << 30),
        (SIZE - 65536, 65536),
        (SIZE - (1 << 17), 1 << 20),
    ],
)
def test_cached_pages_are_sent(device: Device, offset: int, size: int) -> None:
    """The very bytes of the file, and one header before them; at its end only what there is."""
    assert device.ask(offset, size)
    assert device.sent() == device.data[offset : offset + min(size, wire.MAX_READ)]


def test_many_answers_follow_each_other(device: Device) -> None:
    """The pipe is empty after each."""
    for offset in range(1 << 19, SIZE, 1 << 19):
        assert device.ask(offset, 1 << 19)
        assert device.sent() == device.data[offset : offset + (1 << 19)]


@pytest.mark.parametrize("cached", [(), (0, 1), (1, 2), (0, 2)])
def test_a_range_that_is_not_all_cached_is_left_to_others(device: Device, cached: tuple[int, ...]) -> None:
    """Whichever third of it is missing, nothing is sent, and the next answer is whole."""
    third = 1 << 18
    begin = 1 << 20
    device.cache_only([(begin - HEAD + part * third, third + HEAD) for part in cached])
    assert not device.ask(begin, 3 * third)
    assert device.sent() == b""
    device.path.read_bytes()
    assert device.ask(begin, 3 * third)
    assert device.sent() == device.data[begin : begin + 3 * third]


@pytest.mark.parametrize(
    ("offset", "size"), [(HEAD, 4096), (HEAD + 1, 1 << 19), (2 * SIZE, 1 << 19), (0, 1 << 19)]
)
def test_other_reads_are_left_to_others(device: Device, offset: int, size: int) -> None:
    """Too small to be worth it, pages that do not fit the pipe, nothing to read, and what remapfs wrote."""
    assert not device.ask(offset, size)
    assert device.sent() == b""


@pytest.mark.parametrize("opcode", [Opcode.READDIR, Opcode.LOOKUP, Opcode.GETATTR])
def test_other_requests_are_left_to_others(device: Device, opcode: Opcode) -> None:
    """Only a READ is answered."""
    assert not device.ask(1 << 20, 1 << 19, opcode)


def test_a_request_that_is_cut_short_is_left_to_others(device: Device) -> None:
    """It is nothing that a kernel sends, and no reason for a thread to die."""
    header = wire.IN_HEADER.pack(wire.BODY, Opcode.READ, UNIQUE, 2, 0, 0, 1, 0, 0)
    assert not device.splicer.answer(memoryview(header), device.row)


@pytest.mark.parametrize("change", ["write", "truncate", "touch"])
def test_nothing_of_a_changed_source_is_sent(device: Device, change: str) -> None:
    """The usual way then says what is wrong; pages that were in the pipe by then are thrown away."""
    match change:
        case "write":
            with device.path.open("r+b") as stream:
                stream.write(b"x")
        case "truncate":
            os.truncate(device.path, SIZE // 2)
        case _:
            os.utime(device.path, ns=(1, 1))
    assert not device.ask(1 << 20, 1 << 19)
    assert device.sent() == b""


def test_a_host_without_large_pipes_answers_in_the_usual_way(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is asked for once."""
    monkeypatch.setattr(splicing, "_pipe", lambda: None)
    assert not device.ask(1 << 20, 1 << 19)
    monkeypatch.undo()
    assert not device.ask(1 << 20, 1 << 19)


def test_an_answer_that_the_kernel_does_not_take_leaves_nothing_behind(device: Device) -> None:
    """The error is the caller's to look at, and the next answer begins at its beginning."""
    real, device.splicer._device = device.splicer._device, os.open("/dev/null", os.O_RDONLY)  # noqa: SLF001 - the only way to refuse
    with pytest.raises(OSError, match="Bad file descriptor"):
        device.ask(1 << 20, 1 << 19)
    os.close(device.splicer._device)  # noqa: SLF001 - as above
    device.splicer._device = real  # noqa: SLF001 - as above
    assert device.ask(1 << 20, 1 << 19)
    assert device.sent() == device.data[1 << 20 : (1 << 20) + (1 << 19)]


def test_the_cache_is_seen_as_it_is(device: Device) -> None:
    """All of a range, none of it, and a part."""
    with device.path.open("rb") as stream:
        descriptor = stream.fileno()
        assert is_cached(descriptor, 0, SIZE)
        assert is_cached(descriptor, 5000, 1)
        device.cache_only([(0, 1 << 20)])
        assert is_cached(descriptor, 17, (1 << 20) - 17)
        assert not is_cached(descriptor, 17, 1 << 20)
        assert not is_cached(descriptor, (1 << 20) + 5000, 1)
