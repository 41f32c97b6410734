"""Number formats: an fp64 array rounded to one, and what a rounding to it costs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """A floating-point format.

    Args:
        digits: bits of the significand, the hidden one included.
        smallest: least positive number; lost: what arithmetic may turn into 0 (on GPUs, subnormal fp32).
        largest: largest finite number.
    """

    digits: int
    smallest: float
    lost: float
    largest: float

    @property
    def eps(self) -> float:
        """Distance from 1 to the next number: the most that one operation may be off, relatively, however it rounds."""
        return 2.0 ** (1 - self.digits)


FLOAT32_LARGEST = float(np.finfo(np.float32).max)
FORMATS = {
    "fp64": Format(digits=53, smallest=2.0**-1074, lost=2.0**-1022, largest=float(np.finfo(np.float64).max)),
    "fp32": Format(digits=24, smallest=2.0**-149, lost=2.0**-126, largest=FLOAT32_LARGEST),
    "tf32": Format(digits=11, smallest=2.0**-136, lost=2.0**-126, largest=FLOAT32_LARGEST),
    "bf16": Format(digits=8, smallest=2.0**-133, lost=2.0**-126, largest=(2.0 - 2.0**-7) * 2.0**127),
    "fp16": Format(digits=11, smallest=2.0**-24, lost=2.0**-24, largest=65504.0),
}
NUMPY_DTYPES: Mapping[str, Any] = {"fp64": np.float64, "fp32": np.float32, "fp16": np.float16}
NAMES = {"float64": "fp64", "float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}
"""Format of a dtype by the name that numpy and torch give it."""


def rounded(x: Array, name: str) -> Array:
    """The nearest numbers of a format, ties to even, as fp64; beyond the largest, infinities.

    Args:
        name: key of FORMATS.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        if name in NUMPY_DTYPES:
            return np.asarray(x, np.float64).astype(NUMPY_DTYPES[name]).astype(np.float64)
        number = FORMATS[name]
        exponent = np.frexp(x)[1]
        step = np.maximum(np.ldexp(1.0, exponent - number.digits), number.smallest)
        nearest = np.where(np.isfinite(x), np.rint(x / step) * step, x)
        return np.where(np.abs(nearest) > number.largest, np.copysign(np.inf, nearest), nearest)
