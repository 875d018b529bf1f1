"""The best assignment of rows to columns."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Scores = NDArray[np.int64]
NO = -(1 << 40)


def best_pairs(scores: Scores, least: int) -> dict[int, int]:
    """Pair rows with columns so that the sum of scores is largest; no pair scores less than `least`.

    A pair with the score NO is never made. This is the Hungarian algorithm with potentials, in whole numbers,
    so that the answer does not depend on rounding.
    """
    rows, columns = scores.shape
    if not rows or not columns:
        return {}
    # A column of its own for each row, so that a row may stay alone.
    alone = np.full((rows, rows), -NO, dtype=np.int64)
    np.fill_diagonal(alone, -least)
    owner = _solve(np.concatenate([-scores, alone], axis=1))
    return {row: column for column, row in enumerate(owner[:columns]) if row >= 0}


def _solve(cost: Scores) -> list[int]:
    rows, columns = cost.shape
    far = np.int64(1 << 60)
    row_potential = np.zeros(rows + 1, dtype=np.int64)
    potential = np.zeros(columns + 1, dtype=np.int64)
    # Column 0 is where each row starts; rows are counted from 1, and 0 is none.
    owner = np.zeros(columns + 1, dtype=np.int64)
    for row in range(1, rows + 1):
        owner[0], column = row, 0
        nearest = np.full(columns + 1, far)
        came_from = np.zeros(columns + 1, dtype=np.int64)
        used = np.zeros(columns + 1, dtype=bool)
        while True:
            used[column] = True
            current = owner[column]
            reduced = cost[current - 1] - row_potential[current] - potential[1:]
            better = ~used[1:] & (reduced < nearest[1:])
            nearest[1:][better] = reduced[better]
            came_from[1:][better] = column
            following = int(np.argmin(np.where(used, far, nearest)))
            step = nearest[following]
            row_potential[owner[used]] += step
            potential[used] -= step
            nearest[~used] -= step
            column = following
            if not owner[column]:
                break
        while column:
            before = int(came_from[column])
            owner[column] = owner[before]
            column = before
    return [int(row) - 1 for row in owner[1:]]
