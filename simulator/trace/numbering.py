"""Equal rows of tables get equal numbers, in the order of values: `numpy.unique` of rows, mostly without a sort."""

from collections.abc import Iterable

import numpy as np

from ..emulator.thread_values import Array

MOST_NUMBERS = 1 << 62
"""Numbers that rows may have while columns are added: an int64 holds them."""
FEW_NUMBERS = 1 << 20
"""Range of numbers up to which they are counted instead of sorted."""


def number_rows(columns: Iterable[Array], count: int) -> Array:
    """Number of each row, from 0 on: equal for equal rows, greater for greater ones, by the first column first.

    Args:
        columns: int64, uint8 or bool (rows,) each; count: of rows.

    Returns:
        int64 (rows,).
    """
    numbers, most = np.zeros(count, dtype=np.int64), 1
    for column in columns:
        low, high = (int(column.min()), int(column.max())) if count else (0, 0)
        if low == high:
            continue
        if high - low < FEW_NUMBERS:
            values, span = column.astype(np.int64) - low, high - low + 1
        else:
            values, span = _sorted(column)
        if most * span > MOST_NUMBERS:
            numbers, most = _dense(numbers, most)
        numbers, most = numbers * span + values, most * span
    return _dense(numbers, most)[0]


def _dense(numbers: Array, most: int) -> tuple[Array, int]:
    """Numbers in the same order without gaps, and how many there are. Args: most: numbers are less than this."""
    if most > FEW_NUMBERS:
        return _sorted(numbers)
    ranks = np.cumsum(np.bincount(numbers, minlength=most) > 0) - 1
    return ranks[numbers], int(ranks[-1]) + 1


def _sorted(numbers: Array) -> tuple[Array, int]:
    """The same by sorting, of any numbers."""
    values, dense = np.unique(numbers, return_inverse=True)
    return dense.reshape(-1), len(values)
