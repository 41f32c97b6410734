"""The clock of steps that repeat: slower products where they fill the step, as an H200 did, and nothing else."""

import json
import lzma
from pathlib import Path

import pytest
from tilesight.simulator.device.device import load_device
from tilesight.simulator.operations.priced import KernelEstimate
from tilesight.simulator.operations.step_clock import slowdown, slowdown_notes, slowed

MEASURED = Path(__file__).parents[3] / "validate" / "data" / "step-clocks-h200-2026-11-29.ndjson.xz"
ROWS = {row["name"]: row for row in map(json.loads, lzma.decompress(MEASURED.read_bytes()).splitlines())}
PRODUCT_US = {"product_4k": 181.4, "product_wide": 345.4, "product_8k": 1371.7}
"""What each is priced at, by 2c9d9281."""


def product(time_s: float) -> KernelEstimate:
    """That tensor cores bind."""
    return KernelEstimate(
        name="gemm", source="matmul", time_s=time_s, bound_by="tensor cores", hbm_read_bytes=0.3e12 * time_s
    )


def addition(time_s: float) -> KernelEstimate:
    """That HBM binds."""
    return KernelEstimate(
        name="add",
        source="bytes",
        time_s=time_s,
        bound_by="HBM",
        hbm_read_bytes=2e12 * time_s,
        hbm_write_bytes=2e12 * time_s,
    )


def slower(share: float, device: str = "h200") -> float:
    """Times of products that take so much of a step of a millisecond, at the step's clock over before."""
    step = [[product(share * 1e-3)], [addition((1.0 - share) * 1e-3)]]
    (made,), (added,) = slowed(step, slowdown(step, load_device(device)))
    assert added == step[1][0]
    return made.time_s / step[0][0].time_s


@pytest.mark.parametrize("name", PRODUCT_US)
def test_products_that_repeat_sink_as_far_as_an_h200_did_or_less(name: str) -> None:
    """They took 1.14 to 1.25 times as long as priced; 1.09 are said, no more than any took."""
    assert 1.05 < slower(1.0) < ROWS[name]["last_us"] / PRODUCT_US[name] < 1.26


def test_more_products_sink_further_and_few_not_at_all() -> None:
    """By their share of the step; one of additions alone is left as it is."""
    factors = [slower(share) for share in (0.3, 0.6, 0.8, 0.9, 1.0)]
    assert factors == sorted(factors) and factors[0] == 1.0 < factors[2]
    assert slowdown([[addition(1e-3)]], load_device("h200")) == 1.0


def test_a_gpu_with_one_measured_clock_stays_there() -> None:
    """Its clock under products alone is all that is known."""
    assert slower(1.0, "h100") == 1.0


def test_collectives_do_not_count() -> None:
    """Others run beside them; a step of nothing is one."""
    link = KernelEstimate(name="nccl_all_reduce", source="collective", time_s=1e-3, bound_by="NVLink")
    alone = slowdown([[product(1e-3)]], load_device("h200"))
    assert slowdown([[product(1e-3)], [link]], load_device("h200")) == alone > 1.05
    assert slowed([[link]], alone) == [[link]]
    assert slowdown([], load_device("h200")) == 1.0


def test_an_answer_says_so() -> None:
    """Where it is a hundredth and more."""
    assert "take 1.07x" in slowdown_notes(1.07)[0]
    assert slowdown_notes(1.0) == slowdown_notes(1.004) == ()
