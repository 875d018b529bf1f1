"""Which elements of a tensor were written, compared with a mask of all elements."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from remapfs.check.vllm.inside.regions import View, boxes, unwritten

_SHAPES = st.lists(st.integers(1, 5), min_size=0, max_size=3).map(tuple)


@st.composite
def _writes(draw: st.DrawFn) -> tuple[tuple[int, ...], list[tuple[int | slice, ...]]]:
    shape = draw(_SHAPES)
    index = st.tuples(*(st.one_of(st.integers(0, size - 1), st.slices(size)) for size in shape))
    return shape, draw(st.lists(index, max_size=5))


@given(_writes())
def test_what_views_leave_out_is_what_a_mask_says(
    case: tuple[tuple[int, ...], list[tuple[int | slice, ...]]],
) -> None:
    """Also for views that overlap, step over elements, run backwards or are empty."""
    shape, indexes = case
    numbers = np.arange(int(np.prod(shape, dtype=int)), dtype=np.int64).reshape(shape)
    mask = np.zeros(shape, dtype=bool)
    written = []
    for index in indexes:
        part = numbers[index if all(_forward(i) for i in index) else ()]
        mask[np.isin(numbers, part)] = True
        written += boxes(_view(numbers, numbers), _view(numbers, np.asarray(part)))
    holes = np.zeros(shape, dtype=bool)
    for hole in unwritten(shape, written):
        place = tuple(slice(a, b) for a, b in hole)
        assert not holes[place].any()
        holes[place] = True
    assert (holes == ~mask).all()


@given(_SHAPES, st.data())
def test_neighbours_of_a_flat_view_are_cut_into_boxes(shape: tuple[int, ...], data: st.DataObject) -> None:
    """A run of elements in storage order, whatever dimensions it crosses."""
    size = int(np.prod(shape, dtype=int))
    start = data.draw(st.integers(0, size - 1))
    length = data.draw(st.integers(1, size - start))
    numbers = np.arange(size, dtype=np.int64).reshape(shape)
    mask = np.zeros(size, dtype=bool)
    for box in boxes(_view(numbers, numbers), View(start, (length,), (1,))):
        mask[numbers[tuple(slice(a, b) for a, b in box)].ravel()] = True
    assert mask.nonzero()[0].tolist() == list(range(start, start + length))


def test_a_transposed_view_is_a_box() -> None:
    """Loaders of packed weights write through a transposed parameter."""
    assert boxes(View(0, (4, 6), (6, 1)), View(6, (3, 2), (1, 6))) == [((1, 3), (0, 3))]


def test_the_same_region_twice_is_not_two() -> None:
    """Half a tensor written twice is half a tensor."""
    assert unwritten((4, 2), [((0, 2), (0, 2))] * 2) == [((2, 4), (0, 2))]


def test_the_work_does_not_depend_on_the_elements() -> None:
    """A parameter of 10^15 elements has as many cells as it was written in parts."""
    size = 10**5
    written = [((i, i + 1), (0, size * 10**5)) for i in range(100)]
    assert unwritten((size, size * 10**5), written) == [((100, size), (0, size * 10**5))]


def _forward(index: int | slice) -> bool:
    return isinstance(index, int) or index.step is None or index.step > 0


def _view(
    base: np.ndarray[tuple[int, ...], np.dtype[np.int64]],
    part: np.ndarray[tuple[int, ...], np.dtype[np.int64]],
) -> View:
    start = part.__array_interface__["data"][0] - base.__array_interface__["data"][0]
    strides = tuple(stride // 8 for stride in part.strides)
    return View(
        start // 8 if part.size and part.base is not None else int(part.ravel()[0]) if part.size else 0,
        part.shape,
        strides,
    )
