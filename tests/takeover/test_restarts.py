"""How long a server's successor waits, and when none comes any more."""

from __future__ import annotations

from remapfs.present.supervise.restarts import Restarts


def after(*served: float) -> Restarts:
    """Count deaths after so many seconds of serving."""
    restarts = Restarts()
    for seconds in served:
        restarts = restarts.after(seconds)
    return restarts


def test_a_server_that_served_is_replaced_at_once() -> None:
    """However many died before it."""
    assert after(*[0.0] * 9, 0.2) == Restarts()
    assert after(*[0.2] * 1000).delay == 0


def test_servers_that_die_at_once_are_replaced_later_and_later() -> None:
    """So that a shortage can pass; readers wait for 6 s in all."""
    delays = [after(*[0.0] * count).delay for count in range(1, 10)]
    assert delays == [0, 0, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2]


def test_ten_deaths_in_a_row_are_enough() -> None:
    """Whatever kills them will kill the next."""
    assert not after(*[0.0] * 9).exhausted
    assert after(*[0.0] * 10).exhausted
