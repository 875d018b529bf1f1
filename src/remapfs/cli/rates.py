"""How far bytes are, and how fast."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from remapfs.cli import output
from remapfs.words import size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_SETTLED: Final = 0.5  # seconds before which a rate says nothing


@contextmanager
def byte_progress() -> Iterator[Callable[[str, int, int], None]]:
    """Give a function as `output.progress` does, which counts bytes and shows their rate."""
    began = time.monotonic()
    with output.progress() as show:

        def shown(doing: str, done: int, of: int) -> None:
            seconds = time.monotonic() - began
            rate = f", {size(int(done / seconds))}/s" if done and seconds > _SETTLED else ""
            show(f"{doing}: {size(done)} of {size(of)}{rate}", done, of)

        yield shown
