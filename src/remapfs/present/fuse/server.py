"""Answers to the kernel's requests: a function of the plan, the request and the sources."""

from __future__ import annotations

import errno
import mmap
import os
import stat
from itertools import islice
from typing import TYPE_CHECKING, Final

from remapfs.plan.extents import Slice, VirtualFile
from remapfs.plan.tree import Directory, Node, build_tree
from remapfs.present.fuse import wire
from remapfs.present.fuse.wire import Opcode
from remapfs.present.options import LOGGER

if TYPE_CHECKING:
    from collections.abc import Callable

    from remapfs.plan.model import Plan
    from remapfs.present.sources import SourcePool

# A reply's data begins on a page and its header ends there, so that one write sends both and the copies
# are of whole pages.
_DATA: Final = mmap.PAGESIZE
_HEADER: Final = _DATA - wire.OUT_HEADER.size

_DOTS: Final = 2

_READ_ONLY: Final = frozenset(
    {
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
    }
)
_UNANSWERED: Final = frozenset({Opcode.FORGET, Opcode.BATCH_FORGET, Opcode.INTERRUPT, Opcode.NOTIFY_REPLY})


class ReplyBuffer:
    """The memory that one thread builds its replies in, one at a time.

    `data` is where a reply's body goes: `wire.MAX_READ` bytes, page-aligned.
    """

    def __init__(self) -> None:
        self._memory = memoryview(mmap.mmap(-1, _DATA + wire.MAX_READ))
        self.data = self._memory[_DATA:]

    def finish(self, unique: int, length: int) -> memoryview:
        """Put the header before the first `length` bytes of `data` and return the whole reply."""
        wire.OUT_HEADER.pack_into(self._memory, _HEADER, wire.OUT_HEADER.size + length, 0, unique)
        return self._memory[_HEADER : _DATA + length]


class Server:
    """Answer requests about one plan.

    It keeps no state between requests and node ids depend on the paths alone, so any number of threads
    may use it, and another server of the same plan may continue where it stopped.
    """

    def __init__(self, plan: Plan, pool: SourcePool, read_ahead: int) -> None:
        self.pool = pool
        self._read_ahead = read_ahead
        self._nodes = (None, *build_tree(plan.files, plan.directories))
        self._files = tuple(
            node.entry if node is not None and isinstance(node.entry, VirtualFile) else None
            for node in self._nodes
        )
        self._attrs = tuple(b"" if node is None else wire.attr(_stat(node)) for node in self._nodes)
        self._names = {
            node.ino: ((".", node.ino), ("..", node.parent), *node.children.items())
            for node in self._nodes
            if node is not None and node.is_directory
        }
        self._total = sum(file.size for file in plan.files)
        self._answers: dict[int, Callable[[memoryview, int, memoryview], int]] = {
            Opcode.READ: self._read,
            Opcode.LOOKUP: self._lookup,
            Opcode.GETATTR: self._getattr,
            Opcode.READDIR: self._readdir,
            Opcode.READDIRPLUS: self._readdirplus,
            Opcode.STATFS: self._statfs,
            Opcode.INIT: self._init,
            Opcode.READLINK: self._not_a_link,
            Opcode.IOCTL: self._no_ioctl,
            Opcode.RELEASE: self._nothing,
            Opcode.RELEASEDIR: self._nothing,
            Opcode.DESTROY: self._nothing,
            **dict.fromkeys(_READ_ONLY, self._read_only),
        }

    def handle(self, request: memoryview, reply: ReplyBuffer) -> memoryview | bytes | None:
        """Answer one request: the bytes to write to the kernel, or None if it waits for none.

        What has no whole header is no request, and cannot be answered.
        """
        if len(request) < wire.BODY:
            return None
        _, opcode, unique, node, *_ = wire.IN_HEADER.unpack_from(request)
        if opcode in _UNANSWERED:
            return None
        # Operations without an answer get ENOSYS: the kernel then does without, and stops asking.
        answer = self._answers.get(opcode)
        if answer is None:
            return wire.error_reply(unique, errno.ENOSYS)
        try:
            return reply.finish(unique, answer(request, node, reply.data))
        except OSError as error:
            number = error.errno or errno.EIO
        except Exception:  # noqa: BLE001 - a reader must get an answer, whatever fails
            LOGGER.exception("request %d for node %d failed", opcode, node)
            number = errno.EIO
        return wire.error_reply(unique, number)

    def one_slice(self, request: memoryview) -> Slice | None:
        """Give the slice that a READ asks for, if it asks for bytes of one source and nothing else."""
        if len(request) < wire.BODY + wire.READ_IN.size:
            return None
        _, opcode, _, node, *_ = wire.IN_HEADER.unpack_from(request)
        if opcode != Opcode.READ:
            return None
        file = self._files[node] if node < len(self._files) else None
        _, offset, size, *_ = wire.READ_IN.unpack_from(request, wire.BODY)
        pieces = list(islice(file.pieces(offset, min(size, wire.MAX_READ)), 2)) if file else []
        return pieces[0] if len(pieces) == 1 and isinstance(pieces[0], Slice) else None

    def _init(self, request: memoryview, _node: int, data: memoryview) -> int:
        return _put(data, wire.init_reply(wire.unpack_init(request), self._read_ahead))

    def _read(self, request: memoryview, node: int, data: memoryview) -> int:
        _, offset, size, *_ = wire.READ_IN.unpack_from(request, wire.BODY)
        file = self._files[node] if node < len(self._files) else None
        if file is None:
            self._node(node)
            raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
        return self.pool.read_into(file, offset, min(size, len(data)), data)

    def _lookup(self, request: memoryview, node: int, data: memoryview) -> int:
        name = os.fsdecode(bytes(request[wire.BODY :]).partition(b"\0")[0])
        ino = self._node(node).children.get(name)
        return _put(data, wire.NO_ENTRY if ino is None else wire.entry_reply(ino, self._attrs[ino]))

    def _getattr(self, _request: memoryview, node: int, data: memoryview) -> int:
        return _put(data, wire.attr_reply(self._attrs[self._node(node).ino]))

    def _readdir(self, request: memoryview, node: int, data: memoryview) -> int:
        return self._list(request, node, data, plus=False)

    def _readdirplus(self, request: memoryview, node: int, data: memoryview) -> int:
        return self._list(request, node, data, plus=True)

    def _list(self, request: memoryview, node: int, data: memoryview, *, plus: bool) -> int:
        _, offset, size, *_ = wire.READ_IN.unpack_from(request, wire.BODY)
        directory = self._node(node)
        if not directory.is_directory:
            raise OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        names = self._names[node]
        used, size = 0, min(size, len(data))
        for position in range(offset, len(names)):
            name, ino = names[position]
            child = self._node(ino)
            entry = wire.dirent(ino, position + 1, _mode(child), os.fsencode(name))
            if plus:
                linked = position >= _DOTS
                entry = (wire.entry_reply(ino, self._attrs[ino]) if linked else wire.UNLINKED_ENTRY) + entry
            if used + len(entry) > size:
                break
            data[used : used + len(entry)] = entry
            used += len(entry)
        return used

    def _statfs(self, _request: memoryview, _node: int, data: memoryview) -> int:
        return _put(data, wire.statfs_reply(self._total, len(self._nodes) - 1))

    def _node(self, ino: int) -> Node:
        node = self._nodes[ino] if ino < len(self._nodes) else None
        if node is None:
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
        return node

    @staticmethod
    def _nothing(_request: memoryview, _node: int, _data: memoryview) -> int:
        return 0

    @staticmethod
    def _read_only(_request: memoryview, _node: int, _data: memoryview) -> int:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    @staticmethod
    def _not_a_link(_request: memoryview, _node: int, _data: memoryview) -> int:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    @staticmethod
    def _no_ioctl(_request: memoryview, _node: int, _data: memoryview) -> int:
        raise OSError(errno.ENOTTY, os.strerror(errno.ENOTTY))


def _put(data: memoryview, answer: bytes) -> int:
    data[: len(answer)] = answer
    return len(answer)


def _mode(node: Node) -> int:
    kind = stat.S_IFDIR if isinstance(node.entry, Directory) else stat.S_IFREG
    return kind | node.entry.attributes.mode


def _stat(node: Node) -> wire.Stat:
    attributes = node.entry.attributes
    return wire.Stat(
        node.ino, node.size, _mode(node), node.links, attributes.uid, attributes.gid, attributes.mtime_ns
    )
