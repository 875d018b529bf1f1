"""Feed a large checkpoint on two cores: each of two processes has the whole model and half of the tensors."""
# ruff: noqa: ANN401  # vLLM and torch are not typed

from __future__ import annotations

import os
import pickle
from typing import TYPE_CHECKING, Any

from .feed import CannotTell, Fed
from .feed import feed as feed_all

if TYPE_CHECKING:
    from collections.abc import Callable

    from .kinds import Item
    from .ledger import Ledger

# Below this a second process costs more than it gives.
_WORTH_IT = 20_000


def feed(model: Any, items: list[Item], ledger: Ledger, progress: Callable[[int], None]) -> Fed:
    """Feed all of `items`; the ledger knows of all writes afterwards.

    The second half begins with the last tensor of each kind in the first, so that the loader remembers what
    it would after the first half.
    """
    if len(items) < _WORTH_IT or len(os.sched_getaffinity(0)) < 2:  # noqa: PLR2004  # a core for each half
        return feed_all(model, items, ledger, progress)
    first, second = items[: len(items) // 2], items[len(items) // 2 :]
    before = _last_of_each_kind(first)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        _second_half(model, before + second, ledger, writing)
    os.close(writing)
    mine = feed_all(model, first, ledger, lambda done: progress(2 * done))
    with open(reading, "rb") as stream:
        answer = stream.read()
    _, status = os.waitpid(child, 0)
    if status or not answer:
        raise RuntimeError(f"the process with the second half of the tensors ended with status {status}")
    # Written by this very program a moment ago.
    theirs, places = pickle.loads(answer)  # noqa: S301
    if isinstance(theirs, str):
        raise CannotTell(theirs)
    ledger.merge(places)
    return _joined(mine, theirs, {item.number for item in before})


def _second_half(model: Any, items: list[Item], ledger: Ledger, descriptor: int) -> None:
    """Feed in the forked process, send what became of it, and end without any clean-up of the first one's."""
    status = 1
    try:
        try:
            answer: tuple[Any, Any] = feed_all(model, items, ledger, lambda _: None), ledger.places()
        except CannotTell as error:
            answer = str(error), None
        with open(descriptor, "wb") as stream:
            pickle.dump(answer, stream, pickle.HIGHEST_PROTOCOL)
        status = 0
    finally:
        os._exit(status)


def _last_of_each_kind(items: list[Item]) -> list[Item]:
    from .kinds import Kinds  # noqa: PLC0415

    kinds = Kinds(items)
    last = {id(kinds.of(item)): item for item in items}
    return sorted(last.values())


def _joined(mine: Fed, theirs: Fed, twice: set[int]) -> Fed:
    """Put both halves together; what was fed in both counts as in the first."""
    return Fed(
        refused={n: why for n, why in theirs.refused.items() if n not in twice} | mine.refused,
        alike=(theirs.alike - twice) | mine.alike,
        wrote=(theirs.wrote - twice) | mine.wrote,
        kept={n: used for n, used in theirs.kept.items() if n not in twice} | mine.kept,
        unread=(theirs.unread - twice) | mine.unread,
        after=mine.after or theirs.after,
    )
