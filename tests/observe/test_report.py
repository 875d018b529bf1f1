"""What is made of counts and processes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from present.plans import plan_of, virtual
from remapfs.observe import answering
from remapfs.observe.answering import History
from remapfs.observe.counters import Board, Counts
from remapfs.observe.report import Process, how, rules_digest, state_of
from remapfs.plan.model import RuleHits

if TYPE_CHECKING:
    from pathlib import Path

_READ = 15
_SERVER = Process(7, "S", 1000)
_GOOD = Counts(
    uptime=100.0,
    generations=1,
    deaths=0,
    last_end=None,
    server=7,
    beat=0.5,
    threads=2,
    in_hand=(),
    requests={},
    errors={},
    read_bytes=0,
    last_read=None,
    failure=None,
)


@pytest.mark.parametrize(
    ("counts", "server", "state"),
    [
        (_GOOD, _SERVER, "serving"),
        (replace(_GOOD, in_hand=(900.0,)), _SERVER, "serving"),
        (replace(_GOOD, in_hand=(900.0, 0.1)), _SERVER, "serving"),
        (replace(_GOOD, in_hand=(900.0, 30.0)), _SERVER, "waiting"),
        (replace(_GOOD, beat=6.0), _SERVER, "silent"),
        (replace(_GOOD, beat=None), _SERVER, "starting"),
        (_GOOD, Process(7, "T", None), "stopped"),
        (_GOOD, Process(7, "t", None), "stopped"),
        (_GOOD, None, "restarting"),
        (replace(_GOOD, server=None), None, "restarting"),
    ],
)
def test_states(counts: Counts, server: Process | None, state: str) -> None:
    """A slow request is none of the server's; one that nobody takes any more is."""
    found, why = state_of(counts, server)
    assert found == state
    assert bool(why) == (state != "serving")


@pytest.mark.parametrize(
    ("code", "words"),
    [(-9, "was killed by SIGKILL"), (-11, "was killed by SIGSEGV"), (3, "ended with exit code 3")],
)
def test_how_a_server_ended(code: int, words: str) -> None:
    """In the words of the log."""
    assert how(code) == words


def test_the_rate_is_that_of_the_last_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was read before them does not count."""
    now = [50.0]
    monkeypatch.setattr(answering, "monotonic", lambda: now[0])
    board = Board(1, {_READ: "read"})
    history = History(board)
    for second in range(20):
        board.row(0).take()
        board.row(0).done(_READ, read=1000 if second < 10 else 4000)
        now[0] += 1
        history.sample()
    rate = history.rate()
    assert rate.bytes_per_second == 4000
    assert rate.seconds == 5


def test_the_digest_is_of_the_rules_and_of_what_they_made(tmp_path: Path) -> None:
    """Not of where the checkpoint lies or of its times; another rule or another byte has another digest."""
    plans = []
    for name in ("one", "two"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "model.bin").write_bytes(bytes(100))
        plans.append(plan_of(folder))
    assert rules_digest(plans[0]) == rules_digest(plans[1])
    assert len(rules_digest(plans[0])) == 16
    other = replace(plans[0], rules=(RuleHits("drop rule 1", "drop x", 1),))
    assert rules_digest(other) != rules_digest(plans[0])
    more = plan_of(tmp_path / "one", virtual(tmp_path / "two" / "model.bin", "another"))
    assert rules_digest(more) != rules_digest(plans[0])
