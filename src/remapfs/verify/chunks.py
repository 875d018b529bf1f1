"""Which bytes are compared at once: all of them in chunks, or a sample."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from remapfs.plan.extents import Literal
from remapfs.present.options import MIB
from remapfs.verify.expected import Part

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

CHUNK: Final = 4 * MIB


@dataclass(frozen=True, slots=True)
class Share:
    """A part of every file, more than 0 and at most 1; whole MiB are read, one at least."""

    fraction: float


def chunks(parts: Iterable[Part]) -> Iterator[Part]:
    """Cut parts into chunks of 4 MiB at most."""
    for part in parts:
        for start in range(0, part.extent.length, CHUNK):
            length = min(CHUNK, part.extent.length - start)
            yield Part(part.start + start, part.extent.part(start, length))


def sampled(parts: Iterable[Part], sample: int | Share) -> tuple[Part, ...]:
    """Keep what remapfs wrote, and of the rest so many MiB or a share, in pieces of one MiB, spread evenly.

    The first and the last piece are always among them; the same parts give the same sample.
    """
    pieces: list[Part] = []
    kept: list[Part] = []
    for part in parts:
        if isinstance(part.extent, Literal):
            kept.append(part)
        else:
            pieces.append(part)
    total = sum(part.extent.length for part in pieces)
    mebibytes = math.ceil(total * sample.fraction / MIB) if isinstance(sample, Share) else sample
    wanted = [(at, min(at + MIB, total)) for at in _places(total, mebibytes)]
    at = 0
    for part in pieces:
        end = at + part.extent.length
        while wanted and wanted[0][0] < end:
            first, last = wanted[0]
            start = max(first, at)
            stop = min(last, end)
            kept.append(Part(part.start + start - at, part.extent.part(start - at, stop - start)))
            if last > end:
                wanted[0] = end, last
                break
            wanted.pop(0)
        at = end
    return tuple(kept)


def _places(total: int, mebibytes: int) -> list[int]:
    """Say where each piece starts: spread evenly, none overlaps another."""
    if total <= mebibytes * MIB:
        return list(range(0, total, MIB))
    if mebibytes == 1:
        return [0]
    return [number * (total - MIB) // (mebibytes - 1) for number in range(mebibytes)]
