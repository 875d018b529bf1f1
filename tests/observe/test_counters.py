"""Counting in shared memory."""

from __future__ import annotations

import errno
import os

import pytest

from remapfs.observe.counters import Board, LastEnd

_READ = 15
_NAMES = {1: "lookup", _READ: "read"}


def test_nothing_was_counted_yet() -> None:
    """And that is told as such."""
    counts = Board(2, _NAMES).read()
    assert (counts.reads, counts.read_bytes, counts.requests, counts.errors) == (0, 0, {}, {})
    assert (counts.generations, counts.server, counts.last_end, counts.last_read) == (0, None, None, None)
    assert (counts.beat, counts.in_hand, counts.failure) == (None, (), None)


def test_the_rows_of_all_threads_are_added_up() -> None:
    """Requests by name, reads with their bytes, errors by errno."""
    board = Board(3, _NAMES)
    for number in range(3):
        row = board.row(number)
        for _ in range(number + 1):
            row.take()
            row.done(_READ, read=1000)
        row.take()
        row.done(_READ, errno.EIO, read=0)
        row.take()
        row.done(1)
        row.take()
        row.done(40)
    counts = board.read()
    assert counts.requests == {"lookup": 3, "read": 9, "other": 3}
    assert (counts.reads, counts.read_bytes) == (9, 6000)
    assert counts.errors == {"EIO": 3}
    assert counts.last_read is not None


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.ENOTTY])
def test_what_the_file_system_does_not_have_is_no_error(number: int) -> None:
    """The kernel asks for it once and does without; it is counted as a request."""
    board = Board(1, _NAMES)
    board.row(0).take()
    board.row(0).done(1, number)
    assert (board.read().errors, board.read().requests) == ({}, {"lookup": 1})


def test_numbers_out_of_range_stay_in_their_row() -> None:
    """Whatever a kernel of tomorrow sends."""
    board = Board(2, _NAMES)
    board.row(0).take()
    board.row(0).done(4096, 100_000)
    counts = board.read()
    assert counts.requests == {"other": 1}
    assert counts.errors == {"159": 1}
    assert counts.read_bytes == 0


def test_a_request_in_hand_is_seen_until_it_is_answered() -> None:
    """And those of a dead server are forgotten when the next one begins."""
    board = Board(2, _NAMES)
    board.row(1).take()
    assert len(board.read().in_hand) == 1
    board.row(1).done(1)
    assert board.read().in_hand == ()
    board.row(0).take()
    board.begin()
    assert board.read().in_hand == ()


def test_counts_outlive_the_process_that_counted() -> None:
    """A fork shares them, in both directions."""
    board = Board(1, _NAMES)
    for generation in range(1, 3):
        child = os.fork()
        if not child:
            board.row(0).take()
            board.row(0).done(_READ, read=7)
            board.beat()
            board.tell_failure({"file": "a", "offset": generation})
            os._exit(0)
        board.server_started(child)
        assert board.read().server == child
        os.waitpid(child, 0)
        board.server_ended(-9)
        counts = board.read()
        assert (counts.generations, counts.deaths, counts.reads) == (generation, generation, generation)
        assert isinstance(counts.last_end, LastEnd)
        assert (counts.last_end.code, counts.server) == (-9, None)
        assert counts.failure == {"file": "a", "offset": generation}


def test_a_failure_that_does_not_fit_is_left_out() -> None:
    """A path of 5,000 characters."""
    board = Board(1, _NAMES)
    board.tell_failure({"file": "x" * 5000})
    assert board.read().failure == {}
