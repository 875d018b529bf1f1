"""The presenter for every system that libfuse 2 knows, through the fusepy package."""

from __future__ import annotations

import ctypes
import errno
import importlib
import os
import signal
import stat
import sys
from contextlib import contextmanager
from enum import Enum, auto
from queue import Empty, SimpleQueue
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Any, Final, NoReturn

from remapfs.errors import RemapError, RuntimeFailure
from remapfs.observe.answering import Asked, about_plan, metrics_socket
from remapfs.observe.counters import Board
from remapfs.observe.inside import InsideReporter
from remapfs.plan.extents import VirtualFile
from remapfs.plan.tree import build_tree
from remapfs.present.mountpoint import check_mountpoint, mounted_at
from remapfs.present.sources import SourcePool, sources_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import ModuleType

    from remapfs.observe.failures import FailureLog
    from remapfs.observe.report import About
    from remapfs.plan.model import Plan
    from remapfs.plan.tree import Node
    from remapfs.present.options import MountOptions

# Latin-1 carries every byte of a path through fusepy, which would stop at bytes that are not UTF-8.
_ENCODING: Final = "latin-1"
_BLOCK: Final = 4096
# A year: what a plan says never changes while it is mounted.
_VALID_SECONDS: Final = 365 * 86400
# The most that libfuse 2 can take in one request.
_MAX_READ: Final = 128 * 1024
_ENDING_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_WAKE_SECONDS: Final = 0.05
_COUNTED: Final = ("other", "getattr", "readdir", "open", "read", "statfs")
_NUMBERS: Final = {name: number for number, name in enumerate(_COUNTED)}


def serve(plan: Plan, mountpoint: str, options: MountOptions, on_ready: Callable[[], None]) -> None:
    """Mount `plan` with libfuse 2, call `on_ready` once the mount answers, and return when it has ended.

    It runs in the main thread and ends on an unmount from outside, SIGTERM, SIGINT or SIGHUP. libfuse
    decides how many threads serve and how much is read ahead, whatever `options` says of them. Raises
    RemapError when fusepy or libfuse 2 is missing, and RuntimeFailure when libfuse cannot mount.
    """
    module = _import_fusepy()
    # What is mounted where is known on Linux only.
    path = check_mountpoint(plan, mountpoint) if sys.platform == "linux" else os.path.realpath(mountpoint)
    tree = build_tree(plan.files, plan.directories)
    pool = SourcePool(sources_of(plan))
    board = Board(1, dict(enumerate(_COUNTED)))
    pool.failures.tell = board.tell_failure
    try:
        session = _Session(module, _Operations(tree, pool, board), path, _mount_options(plan.root, options))
        with _reporting(plan, path, options, board, pool.failures) as report:

            def ready() -> None:
                report()
                on_ready()

            session.run(ready)
    finally:
        pool.failures.flush()
        pool.close()


@contextmanager
def _reporting(
    plan: Plan, path: str, options: MountOptions, board: Board, failures: FailureLog
) -> Iterator[Callable[[], None]]:
    """Give a function that begins to answer `remapfs status` and Prometheus, on Linux."""
    if sys.platform != "linux":
        yield lambda: None
        return
    with metrics_socket(options) as metrics:

        def about() -> About:
            return about_plan(plan, path, device(), "fusepy", metrics)

        def device() -> str:
            mount = mounted_at(path)
            return mount.device if mount else ""

        with InsideReporter(Asked(about, board, metrics), failures.tick) as reporter:
            yield lambda: reporter.start(device())


def _import_fusepy() -> ModuleType:
    try:
        module = importlib.import_module("fuse")
    except ModuleNotFoundError:
        raise RemapError(
            "the fusepy presenter needs the fusepy package", "pip install 'remapfs[fusepy]'"
        ) from None
    except OSError as error:
        macos = "install macFUSE: https://macfuse.github.io"
        hint = macos if sys.platform == "darwin" else "apt-get install libfuse2"
        raise RemapError(f"the fusepy presenter needs libfuse 2: {error}", hint) from error
    if not hasattr(module, "FUSE"):
        raise RemapError(
            f"the module fuse in {module.__file__} is not fusepy's",
            "uninstall fuse-python, then pip install 'remapfs[fusepy]'",
        )
    return module


def _mount_options(root: str, options: MountOptions) -> dict[str, bool | int | str]:
    chosen: dict[str, bool | int | str] = {
        "foreground": True,
        "ro": True,
        "nosuid": True,
        "nodev": True,
        "fsname": _transport(root).replace("\\", "\\\\").replace(",", "\\,"),
        # Without it the kernel would let everyone whom allow_other lets in read every file.
        "default_permissions": True,
        "use_ino": True,
        "kernel_cache": True,
        "entry_timeout": _VALID_SECONDS,
        "attr_timeout": _VALID_SECONDS,
        "negative_timeout": _VALID_SECONDS,
    }
    if options.allow_other:
        chosen["allow_other"] = True
    if sys.platform == "linux":
        chosen |= {"subtype": "remapfs", "max_read": _MAX_READ, "nonempty": True}
    return chosen


def _transport(path: str) -> str:
    return os.fsencode(path).decode(_ENCODING)


class _Operations:
    """What fusepy calls: operations by name, on paths that begin with a slash."""

    use_ns = True

    def __init__(self, tree: Sequence[Node], pool: SourcePool, board: Board) -> None:
        # libfuse makes threads as it needs them, so one row is all theirs.
        self._row, self._counting = board.row(0), Lock()
        self._tree = tree
        self._pool = pool
        self._nodes = {f"/{_transport(node.entry.path)}": node for node in tree}
        self._stats = [_stat(node) for node in tree]
        self.started: Callable[[], None] = lambda: None

    def __call__(self, operation: str, *arguments: Any) -> Any:  # noqa: ANN401 - as fusepy calls it
        number = _NUMBERS.get(operation, 0)
        try:
            answer = getattr(self, operation)(*arguments)
        except OSError as error:
            # A name that does not exist is an answer.
            self._count(number, 0 if error.errno == errno.ENOENT else error.errno or errno.EIO)
            raise
        self._count(number, read=answer if operation == "read" else None)
        return answer

    def _count(self, number: int, error: int = 0, read: int | None = None) -> None:
        with self._counting:
            self._row.take()
            self._row.done(number, error, read)

    def init(self, _path: str) -> None:
        """Say that the kernel has begun to ask."""
        self.started()

    def getattr(self, path: str, _handle: int | None = None) -> Mapping[str, int]:
        """Answer stat."""
        return self._stats[self._find(path).ino - 1]

    def readdir(self, path: str, _handle: int) -> Iterator[tuple[str, Mapping[str, int], int]]:
        """List a directory."""
        node = self._find(path)
        yield ".", self._stats[node.ino - 1], 0
        yield "..", self._stats[node.parent - 1], 0
        for name, ino in node.children.items():
            yield _transport(name), self._stats[ino - 1], 0

    def open(self, path: str, _flags: int) -> int:
        """Give the inode number as the handle, which names the file in `read`."""
        return self._find(path).ino

    def read(self, handle: int, offset: int, target: memoryview) -> int:
        """Fill `target` from `offset` on and return the number of bytes, smaller only at the file's end."""
        file = self._tree[handle - 1].entry
        if not isinstance(file, VirtualFile):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        return self._pool.read_into(file, offset, len(target), target)

    def statfs(self, _path: str) -> Mapping[str, int]:
        """Describe a full file system."""
        total = sum(node.size for node in self._tree)
        return {
            "f_bsize": _BLOCK,
            "f_frsize": _BLOCK,
            "f_blocks": -(-total // _BLOCK),
            "f_files": len(self._tree),
            "f_namemax": 255,
        }

    def _find(self, path: str) -> Node:
        node = self._nodes.get(path)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return node

    def _refuse(self, *_arguments: Any) -> NoReturn:  # noqa: ANN401 - each operation has its own
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    chmod = chown = create = link = mkdir = mknod = removexattr = rename = rmdir = _refuse
    setxattr = symlink = truncate = unlink = utimens = write = _refuse


def _stat(node: Node) -> Mapping[str, int]:
    attributes = node.entry.attributes
    kind = stat.S_IFDIR if node.is_directory else stat.S_IFREG
    return {
        "st_ino": node.ino,
        "st_mode": kind | attributes.mode,
        "st_nlink": node.links,
        "st_uid": attributes.uid,
        "st_gid": attributes.gid,
        "st_size": node.size,
        "st_blocks": -(-node.size // 512),
        "st_blksize": _BLOCK,
        "st_atime": attributes.mtime_ns,
        "st_mtime": attributes.mtime_ns,
        "st_ctime": attributes.mtime_ns,
    }


class _Happening(Enum):
    STARTED = auto()
    SIGNALLED = auto()
    ENDED = auto()


class _Session:
    """One mount, from libfuse's start to its end.

    libfuse runs in a thread of its own, so that signals come to Python from before the mount exists:
    at no moment can one end the process and leave the mount behind.
    """

    def __init__(
        self,
        module: ModuleType,
        operations: _Operations,
        mountpoint: str,
        options: Mapping[str, bool | int | str],
    ) -> None:
        self._module = module
        self._operations = operations
        self._mountpoint = mountpoint
        self._options = options
        # A handler may interrupt the main thread inside get(); put() of this queue allows that.
        self._happenings: SimpleQueue[_Happening] = SimpleQueue()
        self._released = Event()
        self._libfuse: ctypes.c_void_p | None = None
        self._failure: BaseException | None = None
        operations.started = self._started

    def run(self, on_ready: Callable[[], None]) -> None:
        """Mount, serve and return when nothing is mounted any more."""
        thread = Thread(target=self._main, name="libfuse", daemon=True)
        with _signals(lambda: self._happenings.put(_Happening.SIGNALLED)):
            thread.start()
            try:
                self._attend(thread, on_ready)
            finally:
                self._released.set()
                thread.join()
        if isinstance(self._failure, RuntimeError):
            raise RuntimeFailure(
                f"libfuse could not mount {self._mountpoint}",
                "its own message is above; is the mountpoint yours, and may you open /dev/fuse?",
            ) from self._failure
        if self._failure is not None:
            raise self._failure

    def _attend(self, thread: Thread, on_ready: Callable[[], None]) -> None:
        signalled = False
        while (happening := self._happenings.get()) is not _Happening.ENDED:
            if happening is _Happening.SIGNALLED:
                signalled = True
            else:
                try:
                    on_ready()
                except BaseException:
                    self._end(thread)
                    raise
            if signalled and self._libfuse is not None:
                self._end(thread)
                return

    def _end(self, thread: Thread) -> None:
        self._module._libfuse.fuse_exit(self._libfuse)  # noqa: SLF001 - fuse_exit() works in callbacks only
        happening = None
        while happening is not _Happening.ENDED:
            if happening is None and thread.ident is not None:
                # libfuse looks at what fuse_exit set only after a signal has woken its main thread.
                signal.pthread_kill(thread.ident, signal.SIGTERM)
            try:
                happening = self._happenings.get(timeout=_WAKE_SECONDS)
            except Empty:
                happening = None

    def _started(self) -> None:
        context = self._module._libfuse.fuse_get_context()  # noqa: SLF001 - as above
        self._libfuse = ctypes.c_void_p(context.contents.fuse)
        self._happenings.put(_Happening.STARTED)

    def _main(self) -> None:
        try:
            _binding(self._module)(
                self._operations, _transport(self._mountpoint), encoding=_ENCODING, **self._options
            )
        except BaseException as error:  # noqa: BLE001 - raised again in the main thread
            self._failure = error
        self._happenings.put(_Happening.ENDED)
        # The main thread may be about to signal this one.
        self._released.wait()


def _binding(module: ModuleType) -> Any:  # noqa: ANN401 - a class made from an untyped one
    class Binding(module.FUSE):  # type: ignore[misc, name-defined]
        """fusepy's FUSE, but a read goes into libfuse's own buffer and is not copied on the way."""

        def read(self, _path: bytes, buffer: Any, size: int, offset: int, info: Any) -> int:  # noqa: ANN401
            target = (ctypes.c_char * size).from_address(ctypes.addressof(buffer.contents))
            return int(self.operations("read", info.contents.fh, offset, memoryview(target).cast("B")))

    return Binding


@contextmanager
def _signals(act: Callable[[], None]) -> Iterator[None]:
    before = {
        number: signal.signal(number, lambda *_: act())
        for number in _ENDING_SIGNALS
        if signal.getsignal(number) is not signal.SIG_IGN or number is signal.SIGTERM
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
