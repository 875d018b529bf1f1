"""Which elements of a tensor were written, as boxes of indexes."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Box = tuple[tuple[int, int], ...]
"""For each dimension the first index and the one after the last."""

_MOST_RUNS = 65_536


class View(NamedTuple):
    """A tensor as a view of its storage: all numbers are in elements."""

    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


def boxes(whole: View, part: View) -> list[Box]:
    """Give the indexes of `whole` that `part`, a view of the same storage, covers.

    A view that steps over elements, or that is no box, is cut into runs of neighbours. One of more than
    65,536 runs counts as all of `whole`: nothing that loads weights makes such a view.
    """
    if not all(part.shape):
        return []
    return _as_box(whole, part) or _as_runs(whole, part)


def unwritten(shape: tuple[int, ...], written: Sequence[Box]) -> list[Box]:
    """Give what of a tensor of this shape no box covers, in few boxes.

    The indexes of each dimension are cut wherever a box begins or ends, so the work depends on the number of
    boxes and not on the number of elements.
    """
    cuts = [sorted({0, size, *(cut for box in written for cut in box[d])}) for d, size in enumerate(shape)]
    place = [{cut: i for i, cut in enumerate(own)} for own in cuts]
    grid = np.zeros([len(own) - 1 for own in cuts], dtype=bool)
    for box in written:
        grid[tuple(slice(place[d][a], place[d][b]) for d, (a, b) in enumerate(box))] = True
    if grid.all():
        return []
    holes = (
        tuple((cuts[d][i], cuts[d][i + 1]) for d, i in enumerate(cell))
        for cell in np.argwhere(~grid).tolist()
    )
    return merged(holes)


def merged(cells: Iterable[Box]) -> list[Box]:
    """Join boxes that differ in one dimension and touch there."""
    found = sorted(cells)
    for dimension in reversed(range(len(found[0]) if found else 0)):
        joined: dict[tuple[Box, Box], list[tuple[int, int]]] = {}
        for box in found:
            ranges = joined.setdefault((box[:dimension], box[dimension + 1 :]), [])
            if ranges and ranges[-1][1] == box[dimension][0]:
                ranges[-1] = ranges[-1][0], box[dimension][1]
            else:
                ranges.append(box[dimension])
        found = sorted((*head, own, *tail) for (head, tail), ranges in joined.items() for own in ranges)
    return found


def _as_box(whole: View, part: View) -> list[Box] | None:
    """Match each dimension of the view with the one of the whole that has its stride."""
    rest = part.offset - whole.offset
    if rest < 0:
        return []
    sizes = {stride: size for size, stride in zip(part.shape, part.strides, strict=True) if size > 1}
    ranges: list[tuple[int, int]] = [(0, 1)] * len(whole.shape)
    for dimension in sorted(range(len(whole.shape)), key=lambda d: -whole.strides[d]):
        size, stride = whole.shape[dimension], whole.strides[dimension]
        if size == 1:
            continue
        first, rest = divmod(rest, stride)
        end = first + sizes.pop(stride, 1)
        if end > size:
            return None
        ranges[dimension] = first, end
    return None if sizes or rest else [tuple(ranges)]


def _as_runs(whole: View, part: View) -> list[Box]:
    everything = [tuple((0, size) for size in whole.shape)]
    if not _contiguous(whole):
        return everything
    run, outer = 1, len(part.shape)
    while outer and part.strides[outer - 1] == run:
        outer -= 1
        run *= part.shape[outer]
    count = 1
    for size in part.shape[:outer]:
        count *= size
    if count > _MOST_RUNS:
        return everything
    found = []
    for index in product(*(range(size) for size in part.shape[:outer])):
        start = part.offset - whole.offset + sum(i * s for i, s in zip(index, part.strides, strict=False))
        found += _interval(whole.shape, start, start + run)
    return found


def _contiguous(view: View) -> bool:
    expected = 1
    for size, stride in zip(reversed(view.shape), reversed(view.strides), strict=True):
        if size > 1 and stride != expected:
            return False
        expected *= size
    return True


def _interval(shape: tuple[int, ...], start: int, stop: int) -> list[Box]:
    """Cut neighbouring elements of a contiguous tensor into boxes."""
    if start >= stop:
        return []
    if not shape:
        return [()]
    row = 1
    for size in shape[1:]:
        row *= size
    first, last = -(-start // row), stop // row
    if first > last or (first == last and start % row and stop % row and start // row == stop // row):
        only = start // row
        return [((only, only + 1), *box) for box in _interval(shape[1:], start % row, stop - only * row)]
    found: list[Box] = []
    if start < first * row:
        found += [((first - 1, first), *box) for box in _interval(shape[1:], start % row, row)]
    if first < last:
        found.append(((first, last), *((0, size) for size in shape[1:])))
    if stop > last * row:
        found += [((last, last + 1), *box) for box in _interval(shape[1:], 0, stop - last * row)]
    return found
