"""What is logged of sources that fail."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

from remapfs.observe import failures
from remapfs.observe.events import FIELD
from remapfs.observe.failures import FailureLog

if TYPE_CHECKING:
    from collections.abc import Mapping


class Clock:
    """A clock that a test sets."""

    now = 1000.0

    def __call__(self) -> float:
        """Give the time."""
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Put a clock in the place of the host's."""
    made = Clock()
    monkeypatch.setattr(failures, "monotonic", made)
    return made


def test_one_line_a_file_and_cause(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    """However often it fails, and whoever asks; another cause or file has its own line."""
    del clock
    log = FailureLog()
    told: list[Mapping[str, object]] = []
    log.tell = told.append
    for offset in range(0, 5000, 1000):
        log.report("/a", "short", offset, f"gives no bytes at byte {offset}")
    log.report("/b", "short", 7, "gives no bytes at byte 7")
    assert caplog.messages == ["/a: gives no bytes at byte 0", "/b: gives no bytes at byte 7"]
    assert [(each["file"], each["cause"], each["offset"]) for each in told] == [
        ("/a", "short", 0),
        ("/b", "short", 7),
    ]


def test_a_count_follows_when_the_cause_changes(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    """Before the new cause."""
    log = FailureLog()
    for offset in (0, 4096, 8192):
        log.report("/a", "unreadable", offset, "cannot be read")
    clock.now += 5
    log.report("/a", "changed", 0, "changed")
    assert caplog.messages == [
        "/a: cannot be read",
        "/a: unreadable: 2 more failed reads in 5 s, the last at byte 8192",
        "/a: changed",
    ]


def test_a_count_follows_after_a_minute(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    """By itself, once a minute as long as it goes on failing, and no more after that."""
    log = FailureLog()
    log.report("/a", "short", 0, "short")
    for _ in range(3):
        for _ in range(10):
            log.report("/a", "short", 4096, "short")
        log.tick()
        clock.now += 60
        log.tick()
        log.tick()
    clock.now += 600
    log.tick()
    line = "/a: short: 10 more failed reads in 60 s, the last at byte 4096"
    assert caplog.messages == ["/a: short", line, line, line]


def test_a_count_follows_at_the_end(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    """What was not told yet, once."""
    del clock
    log = FailureLog()
    log.report("/a", "short", 0, "short")
    log.report("/a", "short", 1, "short")
    log.flush()
    log.flush()
    assert caplog.messages == ["/a: short", "/a: short: 1 more failed reads in 0 s, the last at byte 1"]


def test_lines_carry_file_and_offset(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    """For logs that are JSON."""
    del clock
    log = FailureLog()
    log.report("/a", "short", 12, "short")
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert vars(record)[FIELD] == {"event": "source-failed", "file": "/a", "cause": "short", "offset": 12}
