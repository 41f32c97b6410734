"""Variables of a traced program: each class of CTAs reads its own numbers, from columns that classes share."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tilesight.simulator.trace.program.tiles import Variables, common_divisor

ITEMS = 24


@given(
    st.lists(st.integers(0, 3), min_size=ITEMS, max_size=ITEMS),
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2**32)), max_size=16),
)
def test_each_class_reads_what_it_was_given(classes: list[int], asked: list[tuple[int, int]]) -> None:
    """Whatever others were given before or after, those with which it has CTAs in common, too."""
    variables, of_item = Variables(ITEMS), np.array(classes)
    members_of = [*(np.flatnonzero(of_item == number) for number in range(4)), np.flatnonzero(of_item < 2)]
    answers = []
    for number, seed in asked:
        members = members_of[number]
        if len(members):
            values = np.random.default_rng(seed).integers(-3, 3, len(members))
            answers.append((members, values, variables.affine(values, members)))
    for members, values, terms in answers:
        read = sum((factor * variables.columns[name][members] for name, factor in terms), np.zeros(len(members), int))
        assert np.array_equal(read, values)


def test_classes_share_columns() -> None:
    """As many as one of them needs: with a column for each number of each class a large grid took gigabytes."""
    variables = Variables(6)
    for members in np.split(np.arange(6), 3):
        for number in range(1, 5):
            variables.among(np.array((number, 7)) + members, members)
    assert len(variables.columns) == 1 + 4


def test_like_numbers_of_a_class_are_one_variable() -> None:
    """Also where another class came between them; what is 0 in all its CTAs is the variable that is 0 everywhere."""
    variables = Variables(4)
    first, second = np.arange(2), np.arange(2, 4)
    name = variables.among(np.array((5, 6)), first)
    assert variables.among(np.array((8, 9)), second) == name
    assert variables.among(np.array((5, 6)), first) == name
    assert variables.among(np.array((0, 0)), second) == variables.zero


@pytest.mark.parametrize("seed", range(20))
def test_the_common_divisor_of_many_is_that_of_each_with_the_next(seed: int) -> None:
    """As `math.gcd` says, wherever the one value is that the others' divisor does not divide."""
    random = np.random.default_rng(seed)
    values = random.integers(-50, 50, 5000) * int(random.choice([0, 1, 6, 128, 98280]))
    values[: int(random.integers(5000))] = 0
    values[random.integers(5000)] = int(random.choice([0, 4, -36, 1]))
    assert common_divisor(values) == math.gcd(*values.tolist())
