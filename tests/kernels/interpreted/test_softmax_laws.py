"""Every kernel of the project keeps the laws of online softmax, where Triton interprets it."""

import os

import pytest
from tilesight.softmax_laws import check, find_law, fit, hunt
from tilesight.softmax_laws.kernels import kernel, names

EXAMPLES = 3
"""An input takes the interpreter tens of milliseconds; the GPU tests try a thousand for each law."""
SEEDS = range(int(os.environ.get("TILESIGHT_SOFTMAX_SEEDS", "1")))
# The interpreter's product of bf16 tiles is of their bit patterns.
DTYPES = ("fp16", "fp32")
LEAST = {"naive_softmax": 9, "safe_softmax": 9, "online_softmax": 9, "naive": 10, "unfused": 10}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", names())
def test_a_kernel_keeps_all_laws(name: str, dtype: str, seed: int) -> None:
    """A kernel that breaks one computes something else than softmax; a new schedule with a kernel joins by itself."""
    results = check(kernel(name), dtype=dtype, examples=EXAMPLES, seed=seed)
    assert sum(result.outcome == "passed" for result in results) >= LEAST.get(name, 14)


def test_a_kernel_that_declares_too_little_roundoff_fails() -> None:
    """If scores stored in fp16 passed as exact ones, the bounds would not look at the declaration."""
    subject = fit(kernel("naive"), dtype="fp16", score_roundings=0)
    assert hunt(find_law("oracle"), subject, examples=40, shrink=False).outcome == "failed"
