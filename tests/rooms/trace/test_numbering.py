"""Rows of tables, numbered as `numpy.unique` does."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from tilesight.simulator.trace.numbering import number_rows

shapes = array_shapes(min_dims=2, max_dims=2, max_side=12)
SCALES = (1, 1 << 21, 1 << 40, 1 << 61)


@given(arrays(np.int64, shapes, elements=st.integers(-3, 3)), st.sampled_from(SCALES))
def test_rows_are_numbered_in_the_order_of_their_values(table: np.ndarray, scale: int) -> None:
    """Classes of CTAs of the same size would change places, and with them which of them stands for the rest."""
    table = table * scale
    _, expected = np.unique(table, axis=0, return_inverse=True)
    assert number_rows(table.T, len(table)).tolist() == expected.reshape(-1).tolist()


@given(arrays(np.bool_, shapes))
def test_flags_are_numbered_as_packed_ones(table: np.ndarray) -> None:
    """The same of blocks that a CTA runs or does not."""
    _, expected = np.unique(np.packbits(table, axis=1), axis=0, return_inverse=True)
    assert number_rows(table.T, len(table)).tolist() == expected.reshape(-1).tolist()


def test_rows_of_no_columns_are_alike() -> None:
    """A kernel that touches nothing under a mask would have no kind."""
    assert number_rows([], 3).tolist() == [0, 0, 0]
