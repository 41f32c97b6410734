"""Floats of whole numbers, against numpy's own."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tilesight.simulator.emulator.compute import floats
from tilesight.simulator.emulator.thread_values import Array, truth, word

WORD = 1 << 32
NUMBERS = st.floats(width=32, allow_nan=False, allow_infinity=False)


def bits(value: float) -> Array:
    """A float as a word."""
    return word(int(np.float32(value).view(np.uint32)))


def as_float(array: Array) -> np.float32:
    """A word as a float."""
    return np.uint32(array.item()).view(np.float32)


@given(NUMBERS, NUMBERS)
def test_sums_and_products_round_to_nearest(a: float, b: float) -> None:
    """A row that is found by a scale would be the one beside it."""
    with np.errstate(all="ignore"):
        (total,), _ = floats.add((), [bits(a), bits(b)])
        (product,), _ = floats.multiply(("FTZ",), [bits(a), bits(b)])
        assert as_float(total) == np.float32(a) + np.float32(b)
        assert as_float(product) == np.float32(a) * np.float32(b)


def test_a_product_is_not_rounded_before_it_is_added() -> None:
    """(1 + 2^-12)^2 - 1 - 2^-11 is 2^-24, which a rounded product loses."""
    x = 1 + 2.0**-12
    (result,), _ = floats.multiply_add((), [bits(x), bits(x), bits(-1 - 2.0**-11)])
    assert as_float(result) == 2.0**-24


@given(NUMBERS, NUMBERS, st.booleans())
def test_floats_are_compared_and_chosen(a: float, b: float, smaller: bool) -> None:
    """No number is less than another one, unless the comparison says so."""
    _, (less, not_less) = floats.compare(("LT", "AND"), [bits(a), bits(b), truth(True)])
    _, (odd, _) = floats.compare(("LTU", "AND"), [bits(float("nan")), bits(b), truth(True)])
    (chosen,), _ = floats.smaller_or_larger((), [bits(a), bits(b), truth(smaller)])
    assert (less.item(), not_less.item(), odd.item()) == (
        np.float32(a) < np.float32(b),
        np.float32(a) >= np.float32(b),
        True,
    )
    assert as_float(chosen) == (min if smaller else max)(np.float32(a), np.float32(b))


@pytest.mark.parametrize(
    ("function", "value", "exact"),
    [
        ("EX2", 3.5, 2.0**3.5),
        ("LG2", 10.0, np.log2(10.0)),
        ("RCP", 3.0, 1 / 3),
        ("RSQ", 3.0, 3.0**-0.5),
        ("SQRT", 3.0, 3.0**0.5),
        ("SIN", 0.1, np.sin(0.2 * np.pi)),
        ("COS", 0.1, np.cos(0.2 * np.pi)),
        ("TANH", 0.7, np.tanh(0.7)),
    ],
)
def test_functions_of_one_number_are_known(function: str, value: float, exact: float) -> None:
    """What a library's function branches on in a second round follows from the first."""
    (result,), _ = floats.of_one((function,), [bits(value)])
    assert as_float(result) == np.float32(exact) or abs(as_float(result) - exact) < 1e-6


@given(st.integers(-(1 << 63), (1 << 63) - 1))
def test_whole_numbers_become_floats_and_come_back(value: int) -> None:
    """Of 32 and of 64 bits; what is too large is cut."""
    (wide,), _ = floats.from_integer(("S64",), [np.array([[[value]]], dtype=np.int64)])
    (narrow,), _ = floats.from_integer(("U32",), [word(value)])
    assert as_float(wide) == np.float32(value)
    assert as_float(narrow) == np.float32(value % WORD)
    (low, high), _ = floats.to_integer(("S64", "TRUNC"), [wide])
    exact = int(np.float32(value))
    assert low.item() + WORD * high.item() == min(exact, (1 << 63) - 1) % WORD**2
    (cut,), _ = floats.to_integer(("TRUNC",), [wide])
    assert cut.item() == max(-(1 << 31), min((1 << 31) - 1, exact)) % WORD


def test_fractions_are_rounded_as_the_instruction_says() -> None:
    """Down, up, towards zero, to the even neighbour."""
    kinds = {"FLOOR": -3, "CEIL": -2, "TRUNC": -2, "RN": -2}
    for kind, exact in kinds.items():
        (result,), _ = floats.to_integer((kind, "NTZ"), [bits(-2.5)])
        (same,), _ = floats.rounded((kind,), [bits(-2.5)])
        assert (result.item(), as_float(same)) == (exact % WORD, exact)
