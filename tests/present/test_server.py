"""The server answers each request by itself, so that no mount is needed to test it."""

from __future__ import annotations

import errno
import struct
from typing import TYPE_CHECKING

import pytest

from present.plans import expected, plan_of
from remapfs.present.fuse import wire
from remapfs.present.fuse.server import ReplyBuffer, Server
from remapfs.present.fuse.wire import Opcode
from remapfs.present.sources import SourcePool, sources_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

UNIQUE = 0x8000_0000_0000_0012
MUTATING = (
    Opcode.SETATTR,
    Opcode.SYMLINK,
    Opcode.MKNOD,
    Opcode.MKDIR,
    Opcode.UNLINK,
    Opcode.RMDIR,
    Opcode.RENAME,
    Opcode.LINK,
    Opcode.WRITE,
    Opcode.SETXATTR,
    Opcode.REMOVEXATTR,
    Opcode.CREATE,
    Opcode.FALLOCATE,
    Opcode.RENAME2,
    Opcode.COPY_FILE_RANGE,
    Opcode.TMPFILE,
    Opcode.COPY_FILE_RANGE_64,
)


class Client:
    """Sends a server one request at a time, as the kernel would."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self._reply = ReplyBuffer()

    def ask(self, opcode: int, node: int, body: bytes = b"") -> tuple[int, bytes]:
        """Return the errno of the answer, and its body."""
        answer = self.raw(opcode, node, body)
        assert answer is not None
        length, error, unique = wire.OUT_HEADER.unpack_from(answer)
        assert (length, unique) == (len(answer), UNIQUE)
        return -error, answer[wire.OUT_HEADER.size :]

    def raw(self, opcode: int, node: int, body: bytes = b"") -> bytes | None:
        """Return the whole answer, or None."""
        header = wire.IN_HEADER.pack(wire.BODY + len(body), opcode, UNIQUE, node, 0, 0, 1, 0, 0)
        answer = self.server.handle(memoryview(header + body), self._reply)
        return None if answer is None else bytes(answer)

    def lookup(self, name: str, node: int = 1) -> int:
        """Return the node id of a name, 0 if there is none."""
        error, body = self.ask(Opcode.LOOKUP, node, name.encode() + b"\0")
        assert error == 0
        ino: int = wire.ENTRY_OUT.unpack_from(body)[0]
        return ino

    def read(self, node: int, offset: int, size: int, opcode: Opcode = Opcode.READ) -> tuple[int, bytes]:
        """Read from a file or directory."""
        return self.ask(opcode, node, wire.READ_IN.pack(0, offset, size, 0, 0, 0, 0))


@pytest.fixture
def client(source_dir: Path) -> Iterator[Client]:
    """Make a server of the source directory."""
    plan = plan_of(source_dir)
    pool = SourcePool(sources_of(plan))
    yield Client(Server(plan, pool, 1 << 22))
    pool.close()


def test_init_is_answered_with_the_read_ahead(client: Client) -> None:
    """A successor may get INIT again, so that it is an ordinary request."""
    error, body = client.ask(Opcode.INIT, 0, struct.pack("=16I", 7, 45, 131072, 0xFFFFFFFF, *[0] * 12))
    assert error == 0
    assert struct.unpack_from("=III", body) == (7, 45, 1 << 22)


def test_read_gives_the_planned_bytes(client: Client, source_dir: Path) -> None:
    """Across the seam of head and slice, in the middle, and shortened at the end."""
    content = expected(source_dir / "model.bin")
    node = client.lookup("model.bin")
    for offset, size in ((0, 1 << 19), (20, 30), (1 << 20, wire.MAX_READ), (len(content) - 10, 4096)):
        assert client.read(node, offset, size) == (0, content[offset : offset + size])


def test_read_at_the_end_is_empty(client: Client, source_dir: Path) -> None:
    """There, and anywhere beyond."""
    size = len(expected(source_dir / "model.bin"))
    node = client.lookup("model.bin")
    assert client.read(node, size, 4096) == (0, b"")
    assert client.read(node, size + 4096, 4096) == (0, b"")


def test_read_never_overruns_its_buffer(client: Client) -> None:
    """A request for more than it holds gets as much as it holds."""
    error, body = client.read(client.lookup("model.bin"), 0, 1 << 30)
    assert (error, len(body)) == (0, wire.MAX_READ)


def test_read_of_a_directory_is_refused(client: Client) -> None:
    """With the errno that read(2) has for it."""
    assert client.read(1, 0, 4096) == (errno.EISDIR, b"")


def test_lookup_of_a_missing_name_may_be_remembered(client: Client) -> None:
    """The answer is node 0 with a validity, not ENOENT, so that the kernel does not ask again."""
    error, body = client.ask(Opcode.LOOKUP, 1, b"missing\0")
    node, _, valid, *_ = wire.ENTRY_OUT.unpack_from(body)
    assert (error, node) == (0, 0)
    assert valid > 86400


def test_lookup_reads_one_name_and_no_more(client: Client) -> None:
    """Bytes after the name's end belong to no name."""
    assert client.lookup("model.bin") == client.lookup("model.bin\0other")


def test_getattr_of_an_unknown_node_is_stale(client: Client) -> None:
    """Node ids that the plan does not have are refused, 0 among them."""
    for node in (0, 99, 1 << 63):
        assert client.ask(Opcode.GETATTR, node, bytes(16))[0] == errno.ESTALE


@pytest.mark.parametrize("plus", [False, True])
def test_readdir_continues_where_the_last_one_stopped(client: Client, plus: bool) -> None:  # noqa: FBT001 - a parameter
    """Read in pieces that take two entries, a directory has all its names once, with `.` and `..`."""
    names, offset = [], 0
    opcode = Opcode.READDIRPLUS if plus else Opcode.READDIR
    skipped = wire.ENTRY_OUT.size + wire.ATTR.size if plus else 0
    while True:
        error, body = client.read(1, offset, 400 if plus else 80, opcode)
        assert error == 0
        if not body:
            break
        while body:
            _, offset, length, _ = wire.DIRENT.unpack_from(body, skipped)
            start = skipped + wire.DIRENT.size
            names.append(body[start : start + length].decode())
            body = body[start + length + -length % 8 :]
    assert names == [".", "..", "empty", "model.bin", "sub"]


@pytest.mark.parametrize("opcode", MUTATING, ids=lambda opcode: opcode.name)
def test_a_change_is_refused_as_read_only(client: Client, opcode: Opcode) -> None:
    """Even if the mount is made writable from outside."""
    assert client.ask(opcode, 1, bytes(64)) == (errno.EROFS, b"")


@pytest.mark.parametrize(
    "opcode",
    [
        Opcode.OPEN,
        Opcode.OPENDIR,
        Opcode.FLUSH,
        Opcode.GETXATTR,
        Opcode.LISTXATTR,
        Opcode.LSEEK,
        Opcode.STATX,
        999,
    ],
)
def test_what_the_kernel_can_do_itself_is_left_to_it(client: Client, opcode: int) -> None:
    """ENOSYS makes the kernel stop asking; for OPEN it then keeps its cache and no state is needed."""
    assert client.ask(opcode, 1, bytes(64)) == (errno.ENOSYS, b"")


def test_forget_and_interrupt_get_no_answer(client: Client) -> None:
    """The kernel waits for none and would refuse one."""
    for opcode in (Opcode.FORGET, Opcode.BATCH_FORGET, Opcode.INTERRUPT):
        assert client.raw(opcode, 1, bytes(16)) is None


def test_ioctl_is_refused_as_on_any_file(client: Client) -> None:
    """Python's open() asks every file whether it is a terminal."""
    assert client.ask(Opcode.IOCTL, 3, bytes(32)) == (errno.ENOTTY, b"")


def test_statfs_says_that_the_file_system_is_full(client: Client, source_dir: Path) -> None:
    """Its size is that of the files, in blocks of 4096."""
    total = sum(len(expected(path)) for path in source_dir.rglob("*") if path.is_file())
    error, body = client.ask(Opcode.STATFS, 1)
    blocks, free, available, nodes, *_ = wire.STATFS_OUT.unpack(body)
    assert (error, blocks, free, available, nodes) == (0, -(-total // 4096), 0, 0, 7)


def test_a_failing_handler_answers_eio_and_is_logged(
    client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The reader gets an error instead of waiting for ever."""

    def fail(*_: object) -> int:
        raise ZeroDivisionError

    node = client.lookup("model.bin")
    monkeypatch.setattr(SourcePool, "read_into", fail)
    assert client.read(node, 0, 4096) == (errno.EIO, b"")
    assert "ZeroDivisionError" in caplog.text


def test_a_truncated_request_answers_eio(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    """A body that is too short for its struct is a failure like any other."""
    assert client.ask(Opcode.READ, 3, b"") == (errno.EIO, b"")
    assert "struct.error" in caplog.text
