"""What is fuzzed: each target takes any bytes, and ends without an error or with one that it defines."""

from __future__ import annotations

import errno
import json
import os
import socket
import tempfile
from collections.abc import Callable
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from present.plans import plan_of
from remapfs.checkpoint.header import encode_header, parse_header
from remapfs.checkpoint.index import IndexMode, parse_index, reconcile
from remapfs.checkpoint.model import File
from remapfs.checkpoint.source import Attributes, Source
from remapfs.errors import RemapError
from remapfs.plan.documents import decode, encode
from remapfs.plan.programs import ProgramError, run_jq
from remapfs.present.fuse import wire
from remapfs.present.fuse.server import Server
from remapfs.present.fuse.threads import ServingThreads, board
from remapfs.present.fuse.wire import Opcode
from remapfs.present.sources import SourcePool, sources_of
from remapfs.rules import load_rules
from remapfs.rules.apply import apply_steps

if TYPE_CHECKING:
    from collections.abc import Iterator

Target = Callable[[bytes], None]
_FILE = File("m.safetensors.index.json", Source("/m", 1, 1, 1, 1), Attributes(0o444, 0, 0, 0))
_NAMES = ("model.layers.0.self_attn.q_proj.weight", "lm_head.weight", "a", "layers.1.ffn.w1.scale")
_VALUES = {"prefix": "model."}
_ERRNOS = {
    errno.ENOSYS, errno.EROFS, errno.EINVAL, errno.ENOTTY,
    errno.ESTALE, errno.EISDIR, errno.ENOTDIR, errno.EIO,
}  # fmt: skip
_SILENT = {Opcode.FORGET, Opcode.BATCH_FORGET, Opcode.INTERRUPT, Opcode.NOTIFY_REPLY}


@contextmanager
def header() -> Iterator[Target]:
    """Take a shard's header: what is read is written again, and read again as the same."""

    def run(data: bytes) -> None:
        with suppress(RemapError):
            found = parse_header(data, "m.safetensors", 1 << 20)
            written = encode_header(found.metadata, found.tensors, found.length)
            again = parse_header(written[8:], "m.safetensors", 1 << 20)
            assert (again.tensors, again.metadata) == (found.tensors, found.metadata)

    yield run


@contextmanager
def index() -> Iterator[Target]:
    """Take an index: no shard that it names lies outside; against no headers, in every mode."""

    def run(data: bytes) -> None:
        with suppress(RemapError):
            found = parse_index(_FILE, data)
            for shard in found.weight_map.values():
                assert not shard.startswith(("/", "../"))
                assert shard != ".."
            for mode in IndexMode:
                with suppress(RemapError):
                    reconcile(found, {}, mode)

    yield run


@contextmanager
def rules() -> Iterator[Target]:
    """Take a rules file, with others beside it that it may extend; the rules applied to a few names."""
    with tempfile.TemporaryDirectory(prefix="remapfs-fuzz-") as folder:
        path = Path(folder, "rules.toml")
        Path(folder, "base.toml").write_text("[[rename]]\nprefix = 'a'\nto = 'b'\noptional = true\n")
        Path(folder, "circle.toml").write_text("extends = ['rules.toml']\n")

        def run(data: bytes) -> None:
            path.write_bytes(data)
            with suppress(RemapError):
                found = load_rules(str(path), _VALUES)
                apply_steps(_NAMES, found.steps)
                found.hides("config.json")

        yield run


@contextmanager
def program() -> Iterator[Target]:
    """Take a jq program: it gives results or fails, within its time and memory."""
    document = {"architectures": ["A"], "quantization_config": {"ignore": ["a.b"]}, "n": 1}

    def run(data: bytes) -> None:
        with suppress(ProgramError):
            json.dumps(run_jq(data.decode(errors="replace"), document, seconds=1, memory=128 << 20))

    yield run


@contextmanager
def config() -> Iterator[Target]:
    """Take a JSON file whose names are rewritten: what is decoded can be written again."""

    def run(data: bytes) -> None:
        with suppress(RemapError):
            encode(decode("config.json", data), data)

    yield run


@contextmanager
def request() -> Iterator[Target]:
    """Take what a server reads from the kernel: an answer that fits, or none, and the thread goes on."""
    with tempfile.TemporaryDirectory(prefix="remapfs-fuzz-") as folder:
        source = Path(folder)
        (source / "sub").mkdir()
        (source / "model.bin").write_bytes(os.urandom(1 << 16))
        (source / "sub" / "other.bin").write_bytes(os.urandom(100))
        plan = plan_of(source)
        pool = SourcePool(sources_of(plan))
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20)
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20)
        ended: list[OSError | None] = []
        threads = ServingThreads(theirs.fileno(), Server(plan, pool, 1 << 22), board(1), ended.append)
        threads.start()
        ours.settimeout(10)

        def run(data: bytes) -> None:
            # An empty packet is a connection's end, which the kernel never sends.
            for packet, odd in ((data or b"\0", True), (_PING, False)):
                ours.send(packet)
                if not odd or _is_answered(packet):
                    _check(packet, ours.recv(4 << 20))
            assert not ended

        yield run
        # An answer that was not taken makes this side's end an error for the other, which ends the thread.
        ours.send(_PING)
        ours.recv(1, socket.MSG_PEEK)
        ours.close()
        assert threads.join(10)
        theirs.close()
        pool.close()


_PING = wire.IN_HEADER.pack(wire.BODY + 16, Opcode.GETATTR, 77, wire.ROOT_ID, 0, 0, 1, 0, 0) + bytes(16)


def _is_answered(packet: bytes) -> bool:
    return len(packet) >= wire.BODY and wire.IN_HEADER.unpack_from(packet)[1] not in _SILENT


def _check(packet: bytes, answer: bytes) -> None:
    _, opcode, unique, *_ = wire.IN_HEADER.unpack_from(packet)
    length, error, told = wire.OUT_HEADER.unpack_from(answer)
    assert (length, told) == (len(answer), unique)
    assert -error in _ERRNOS | {0}
    if opcode not in set(Opcode):
        assert -error == errno.ENOSYS
    if error:
        assert length == wire.OUT_HEADER.size


TARGETS = {
    "header": header,
    "index": index,
    "rules": rules,
    "program": program,
    "config": config,
    "request": request,
}
