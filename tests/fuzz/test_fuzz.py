"""Inputs from outside end well or in an error that is defined, whatever bytes they are.

REMAPFS_FUZZ_EXAMPLES says how many each target gets; `long.py` goes on for as long as it is told.
"""

from __future__ import annotations

import os
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fuzz.mutating import kept, mutate
from fuzz.targets import TARGETS

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator
    from types import FrameType

EXAMPLES = int(os.environ.get("REMAPFS_FUZZ_EXAMPLES", "150"))
# Each of them starts a process.
_SLOW = {"program": 10}
_HANGS_AFTER = 20


@contextmanager
def bounded() -> Iterator[None]:
    """Fail what does not end."""

    def fail(_number: int, _frame: FrameType | None) -> None:
        pytest.fail(f"not done after {_HANGS_AFTER} seconds")

    before = signal.signal(signal.SIGALRM, fail)
    signal.alarm(_HANGS_AFTER)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.fixture(scope="module", params=TARGETS)
def target(request: pytest.FixtureRequest) -> Iterator[tuple[str, Callable[[bytes], None]]]:
    """Name each target, and give what takes its input."""
    with TARGETS[request.param]() as run:
        yield request.param, run


def test_kept_inputs_end_well(target: tuple[str, Callable[[bytes], None]]) -> None:
    """Those that the others are made of, and all that were a bug once."""
    name, run = target
    for data in kept(name):
        with bounded():
            run(data)


@given(chance=st.randoms(use_true_random=False), blind=st.binary(max_size=200))
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
def test_inputs_made_from_them_end_well(
    target: tuple[str, Callable[[bytes], None]], chance: random.Random, blind: bytes
) -> None:
    """Ten mutations of kept inputs at a time, and bytes that know nothing."""
    name, run = target
    inputs = kept(name)
    share = _SLOW.get(name, 1)
    for data in [*(mutate(chance, inputs) for _ in range(max(10 // share, 1))), blind]:
        with bounded():
            run(data)
