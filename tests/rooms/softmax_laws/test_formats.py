"""Rounding to the formats that implementations are tested in."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tilesight.softmax_laws.declare.formats import FORMATS, rounded

BF16 = [(1.0 + 2**-8, 1.0), (1.0 + 3 * 2**-8, 1.0 + 2**-6), (3.4e38, np.inf), (2.0**-134, 0.0), (-0.0, -0.0)]


@pytest.mark.parametrize(("number", "nearest"), BF16)
def test_bf16_rounds_to_nearest_even(number: float, nearest: float) -> None:
    """Ties go to the even neighbour, what is beyond the largest to infinity, the rest of subnormals to 0."""
    result = rounded(np.array([number]), "bf16")[0]
    assert result == nearest
    assert np.signbit(result) == np.signbit(nearest)


@given(st.floats(width=32), st.sampled_from(["fp32", "fp16", "bf16", "tf32"]))
def test_rounding_twice_is_rounding_once(number: float, name: str) -> None:
    """Cases hold numbers of the format, and rounding them again for a snippet must not move them."""
    once = rounded(np.array([number]), name)
    assert np.array_equal(rounded(once, name), once, equal_nan=True)


@given(st.floats(-60000, 60000), st.sampled_from(["fp32", "fp16", "bf16", "tf32"]))
def test_rounding_costs_half_an_eps(number: float, name: str) -> None:
    """The bounds take half an eps for a rounding, and the smallest number near 0."""
    result = float(rounded(np.array([number]), name)[0])
    assert abs(result - number) <= 0.5 * FORMATS[name].eps * abs(number) + FORMATS[name].smallest


@given(st.floats(-1e5, 1e5), st.sampled_from(["fp32", "fp16"]))
def test_numpys_formats_round_as_numpy_does(number: float, name: str) -> None:
    """An implementation in numpy gets exactly what the oracle gets."""
    dtype = {"fp32": np.float32, "fp16": np.float16}[name]
    with np.errstate(over="ignore"):
        assert rounded(np.array([number]), name)[0] == dtype(number)


def test_digits_agree_with_numpy() -> None:
    """A wrong eps would make every bound wrong."""
    for name, dtype in (("fp64", np.float64), ("fp32", np.float32), ("fp16", np.float16)):
        info, known = np.finfo(dtype), FORMATS[name]
        assert (known.eps, known.largest) == (float(info.eps), float(info.max))
        assert known.smallest == float(info.smallest_subnormal)
