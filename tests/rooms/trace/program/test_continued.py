"""Grids of which a part is followed: which part, and where the rest goes on."""

from math import prod

import numpy as np
import pytest
from tilesight.simulator.trace.program.continued import BOX_CTAS, FOLLOWED_ONE_BY_ONE, continued_of


def axes_of(grid: tuple[int, int, int], numbers: np.ndarray) -> tuple[np.ndarray, ...]:
    """x, y and z of CTAs."""
    return numbers % grid[0], numbers // grid[0] % grid[1], numbers // (grid[0] * grid[1])


def table_of(box, firsts, values_of) -> np.ndarray:
    """What CTAs of all boxes have for variables. Args: values_of: function of x, y and z."""
    inside = axes_of(box, np.arange(prod(box)))
    placed = [values_of(*(begin + where for begin, where in zip(first, inside, strict=True))) for first in firsts]
    return np.stack([np.concatenate(column) for column in zip(*placed, strict=True)], axis=1)


@pytest.mark.parametrize(
    ("grid", "box", "axes"),
    [
        ((1 << 30, 1, 1), (1 << 16, 1, 1), (0,)),
        ((4096, 4096, 1), (4096, 16, 1), (1,)),
        ((3000, 1000, 7), (3000, 20, 1), (1, 2)),
        ((100, 100, 200), (100, 100, 5), (2,)),
        ((2097143, 1, 3), (65536, 1, 1), (0, 2)),  # a prime number of CTAs
    ],
)
def test_a_large_grid_is_followed_in_boxes_of_bounded_size(grid, box, axes) -> None:
    """A whole number of them along each axis, where that leaves them large enough."""
    continued, firsts = continued_of(grid)
    assert (continued.box, continued.axes, continued.boxes) == (box, axes, len(firsts))
    assert continued.ctas <= BOX_CTAS
    assert all(first[axis] + box[axis] <= grid[axis] for first in firsts for axis in range(3))
    assert continued.is_whole == (grid[0] != 2097143)


def test_a_small_grid_is_followed_one_by_one() -> None:
    """As all grids are that were followed before."""
    assert continued_of((FOLLOWED_ONE_BY_ONE, 1, 1)) is None
    assert continued_of((1024, 1024, 1)) is None


@pytest.mark.parametrize("grid", [(1 << 22, 1, 1), (4096, 4096, 1), (3000, 1000, 7), (2097143, 1, 3)])
def test_variables_that_are_affine_in_the_axes_go_on_all_over_the_grid(grid) -> None:
    """Held against the affine function itself, at the ends and at random CTAs."""

    def values(x, y, z):
        return 512 * x + 40_000 * y - 7 * z, 3 * y, 0 * x

    continued, firsts = continued_of(grid)
    table = table_of(continued.box, firsts, values)
    assert continued.is_even(table, firsts)
    numbers = np.concatenate([[0, prod(grid) - 1], np.random.default_rng(1).integers(0, prod(grid), 1000)])
    assert np.array_equal(continued.items(table)(numbers), np.stack(values(*axes_of(grid, numbers)), axis=1))


@pytest.mark.parametrize("values", [lambda x, y, z: (x * x,), lambda x, y, z: (x // 5_000_000,)])
def test_other_variables_are_seen_not_to_go_on(values) -> None:
    """Squares, and steps that lie beyond the first boxes."""
    grid = (1 << 23, 1, 1)
    continued, firsts = continued_of(grid)
    assert not continued.is_even(table_of(continued.box, firsts, values), firsts)
