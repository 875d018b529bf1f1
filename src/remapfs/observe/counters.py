"""Counters in memory that the processes of a mount share, so that they go on when a server dies."""

from __future__ import annotations

import errno
import json
import mmap
import struct
from dataclasses import dataclass
from time import monotonic_ns
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

# One row is one writer's, and no two rows share a line of the processor's cache.
_ROW: Final = 256
_SLOT_BYTES: Final = 8
_ERRORS, _MOST_ERRORS = 64, 160
_BYTES, _LAST_READ, _IN_HAND = 224, 225, 226
# The supervisor's row, but for the last, which is the server's.
_GENERATIONS, _SERVER, _DEATHS, _LAST_END, _LAST_END_AT, _BEGAN, _BEAT = range(7)
_HEADER_ROWS: Final = 1
_TEXT_BYTES: Final = 4096
_LENGTH: Final = struct.Struct("=q")
# What the file system does not have is no failure: the kernel asks once and then does without.
_NOT_COUNTED: Final = frozenset({errno.ENOSYS, errno.ENOTTY})
_NANO: Final = 1e9


@dataclass(frozen=True, slots=True)
class LastEnd:
    """How a server ended: its exit code, or a signal's number below 0; how many seconds ago."""

    code: int
    ago: float


@dataclass(frozen=True, slots=True)
class Counts:
    """What was counted since the mount was made or taken over, at one moment.

    `uptime` are the seconds since then, by a clock that nobody sets. `requests` are answers by the name of
    the request, `errors` those with an error by the errno's name. `server` is the process that serves, None
    while there is none; `beat` says how many seconds ago it showed life, None if it never did. `in_hand` are
    the seconds for which each busy thread has had its request.
    """

    uptime: float
    generations: int
    deaths: int
    last_end: LastEnd | None
    server: int | None
    beat: float | None
    threads: int
    in_hand: tuple[float, ...]
    requests: Mapping[str, int]
    errors: Mapping[str, int]
    read_bytes: int
    last_read: float | None
    failure: Mapping[str, object] | None

    @property
    def reads(self) -> int:
        """How many reads were answered."""
        return self.requests.get("read", 0)


class Row:
    """The counters of one serving thread; no other may write to them."""

    __slots__ = ("_slots",)

    def __init__(self, slots: memoryview) -> None:
        self._slots = slots

    def take(self) -> None:
        """Note that a request is in hand from now on."""
        self._slots[_IN_HAND] = monotonic_ns()

    def done(self, operation: int, error: int = 0, read: int | None = None) -> None:
        """Count the request in hand, which is so no longer: by its number, its errno, and the bytes read."""
        slots = self._slots
        slots[operation if operation < _ERRORS else 0] += 1
        if error:
            if error not in _NOT_COUNTED:
                slots[_ERRORS + min(error, _MOST_ERRORS - 1)] += 1
        elif read is not None:
            slots[_BYTES] += read
            slots[_LAST_READ] = slots[_IN_HAND]
        slots[_IN_HAND] = 0


class Board:
    """Counters for `threads` threads, shared with every process that is forked from now on.

    `operations` are the names of requests by their numbers, which are below 64.

    No lock: a slot is 64 bits wide and has one writer, and what others read of it is a little late at most.
    """

    def __init__(self, threads: int, operations: Mapping[int, str]) -> None:
        self.threads = threads
        self._operations = operations
        size = (_HEADER_ROWS + threads) * _ROW * _SLOT_BYTES
        self._memory = mmap.mmap(-1, size + _TEXT_BYTES)
        self._text = memoryview(self._memory)[size:]
        self._slots = memoryview(self._memory)[:size].cast("q")
        self._slots[_BEGAN] = monotonic_ns()

    def row(self, number: int) -> Row:
        """Give the counters of a thread, from 0 on."""
        begin = (_HEADER_ROWS + number) * _ROW
        return Row(self._slots[begin : begin + _ROW])

    def server_started(self, pid: int) -> None:
        """Note a new server; the supervisor only."""
        self._slots[_BEAT] = 0
        self._slots[_GENERATIONS] += 1
        self._slots[_SERVER] = pid

    def server_ended(self, code: int) -> None:
        """Note that the server is gone; the supervisor only."""
        self._slots[_SERVER] = 0
        self._slots[_DEATHS] += 1
        self._slots[_LAST_END], self._slots[_LAST_END_AT] = code, monotonic_ns()

    def begin(self) -> None:
        """Forget what a dead server had in hand; the new one only, before its threads start."""
        for number in range(self.threads):
            self._slots[(_HEADER_ROWS + number) * _ROW + _IN_HAND] = 0

    def beat(self) -> None:
        """Show that the server lives; its main thread only."""
        self._slots[_BEAT] = monotonic_ns()

    def tell_failure(self, failure: Mapping[str, object]) -> None:
        """Keep the last failure, whatever of it fits."""
        text = json.dumps(failure).encode()
        if _LENGTH.size + len(text) > len(self._text):
            text = b"{}"
        _LENGTH.pack_into(self._text, 0, 0)
        self._text[_LENGTH.size : _LENGTH.size + len(text)] = text
        _LENGTH.pack_into(self._text, 0, len(text))

    def read(self) -> Counts:
        """Add up what all threads have counted."""
        slots, now = self._slots, monotonic_ns()
        rows = [slots[(_HEADER_ROWS + n) * _ROW : (_HEADER_ROWS + n + 1) * _ROW] for n in range(self.threads)]
        totals = [sum(column) for column in zip(*(row[:_IN_HAND].tolist() for row in rows), strict=True)]
        last_read = max(row[_LAST_READ] for row in rows)
        in_hand = [row[_IN_HAND] for row in rows]
        code, ended, beat = slots[_LAST_END], slots[_LAST_END_AT], slots[_BEAT]
        return Counts(
            uptime=(now - slots[_BEGAN]) / _NANO,
            generations=slots[_GENERATIONS],
            deaths=slots[_DEATHS],
            last_end=LastEnd(code, _ago(now, ended)) if ended else None,
            server=slots[_SERVER] or None,
            beat=_ago(now, beat) if beat else None,
            threads=self.threads,
            in_hand=tuple(_ago(now, taken) for taken in in_hand if taken),
            requests={
                self._operations.get(n, "other"): count for n, count in enumerate(totals[:_ERRORS]) if count
            },
            errors={
                errno.errorcode.get(n, str(n)): count
                for n, count in enumerate(totals[_ERRORS : _ERRORS + _MOST_ERRORS])
                if count
            },
            read_bytes=totals[_BYTES],
            last_read=_ago(now, last_read) if last_read else None,
            failure=self._failure(),
        )

    def _failure(self) -> Mapping[str, object] | None:
        (length,) = _LENGTH.unpack_from(self._text)
        text = bytes(self._text[_LENGTH.size : _LENGTH.size + length])
        try:
            # It may be written at this moment.
            found: Mapping[str, object] | None = json.loads(text)
        except ValueError:
            return None
        return found


def _ago(now: int, moment: int) -> float:
    return max(now - moment, 0) / _NANO
