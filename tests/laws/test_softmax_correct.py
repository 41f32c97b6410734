"""The laws are just: correct implementations in numpy and torch never break one, whatever the seed."""

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tilesight.kernels.launch.availability import missing_package
from tilesight.softmax_laws import LAWS, check_each, find_law, fit, hunt, reproduce
from tilesight.softmax_laws.draw.arrays import keys_of, pointers
from tilesight.softmax_laws.examples import Stream, attention, merge, softmax

SEEDS = range(int(os.environ.get("TILESIGHT_SOFTMAX_SEEDS", "1")))
EXAMPLES = int(os.environ.get("TILESIGHT_SOFTMAX_EXAMPLES", "20"))
"""20 and 200 for the long run: TILESIGHT_SOFTMAX_SEEDS=20 TILESIGHT_SOFTMAX_EXAMPLES=200."""
NUMPY = [(function, dtype) for function in (softmax, attention, Stream) for dtype in ("fp64", "fp32", "fp16")]
NUMPY += [(merge, dtype) for dtype in ("fp64", "fp32")]
needs_torch = pytest.mark.skipif(missing_package() is not None, reason=str(missing_package()))


def _keeps_all(function: Callable[..., Any], seed: int, least: int, **given: Any) -> None:
    results = list(check_each(function, examples=EXAMPLES, seed=seed, **given))
    assert [result for result in results if result.outcome == "failed"] == []
    assert sum(result.outcome == "passed" for result in results) >= least
    assert all(result.reason for result in results if result.outcome == "not applicable")


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("function", "dtype"), NUMPY)
def test_a_correct_numpy_implementation_keeps_all_laws(function: Callable[..., Any], dtype: str, seed: int) -> None:
    """If one fails here, the bound of a law is too tight, and would accuse a user's correct kernel."""
    _keeps_all(function, seed, 13, dtype=dtype)


def _tf32(array: Any) -> Any:
    """Cut to the 10 bits of mantissa that tensor cores read of fp32."""
    return (np.ascontiguousarray(array, np.float32).view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)


def cut_attention(q: Any, k: Any, v: Any, causal: bool = False, block_n: int = 64) -> Any:
    """Attention with operands as tensor cores take them from fp32."""
    return attention(_tf32(q), _tf32(k), _tf32(v), causal, block_n)


@pytest.mark.parametrize("seed", SEEDS)
def test_products_in_tf32_keep_all_laws(seed: int) -> None:
    """Scores of tens of millions are off by thousands then, and weights made of such an LSE overflow."""
    _keeps_all(cut_attention, seed, 13, dtype="fp32", causal="last", products="tf32", head_dims=[16])


@pytest.mark.parametrize("score", [1.0e7, -1.0e7])
def test_an_lse_of_tens_of_millions_in_tf32_keeps_the_law(score: float) -> None:
    """Found on an H200: of an LSE off by thousands exp(score - LSE) is inf or 0, and the output right all the same."""
    k = [keys_of(np.array([[0.0]]), 16), keys_of(np.array([[score]]), 16)]
    q, v = np.array([pointers(1, 1, 16, 4.0)] * 2), np.array([np.eye(1, 16)] * 2)
    given = {"dtype": "fp32", "causal": "last", "products": "tf32", "head_dims": [16]}
    reproduce("LSE and output", cut_attention, q=q, k=np.array(k), v=v, **given)


@needs_torch
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("dtype", ["fp64", "fp32", "fp16", "bf16"])
@pytest.mark.parametrize("name", ["softmax", "attention"])
def test_a_correct_torch_implementation_keeps_all_laws(name: str, dtype: str, seed: int) -> None:
    """Gradients too, where numbers are moderate; torch's own rounding of fp16 and bf16 must fit the bounds."""
    from laws import softmax_torch_samples

    _keeps_all(getattr(softmax_torch_samples, name), seed, 13, dtype=dtype, arrays="torch")


@needs_torch
@pytest.mark.parametrize("seed", SEEDS)
def test_a_correct_backward_pass_keeps_all_laws(seed: int) -> None:
    """One that computes weights again from LSE, as flash kernels do, is right to the bound."""
    from laws.softmax_torch_samples import flash

    _keeps_all(flash(), seed, 11, dtype="fp32", arrays="torch")


@needs_torch
@pytest.mark.parametrize("fault", range(1, 6))
def test_a_wrong_gradient_is_seen(fault: int) -> None:
    """The law of gradients kills every backward pass with a fault; else it could not fail."""
    from laws.softmax_torch_samples import FAULTS, flash

    result = hunt(find_law("gradients"), fit(flash(FAULTS[fault]), dtype="fp32", arrays="torch"), shrink=False)
    assert result.outcome == "failed", FAULTS[fault]


def test_every_law_applies_to_an_example() -> None:
    """Laws that apply to none of the correct implementations would be tested against nothing; gradients need torch."""
    applied = set()
    for function in (softmax, attention, merge, Stream):
        declaration = fit(function).declaration
        applied |= {law.name for law in LAWS if law.missing(declaration) is None}
    assert applied == {law.name for law in LAWS} - {"gradients"}
