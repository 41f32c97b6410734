"""Bounds: the right resource binds, the numbers are the data sheets', and no bound asks for more than is compulsory."""

from dataclasses import replace

import pytest
from closed_forms.roofline import launch_roofline, ridge_flop_per_byte
from hypothesis import given
from hypothesis import strategies as st
from tilesight.simulator.closed_form.roofline import Roofline, bounds, roofline, tensor_peak_flop_per_s
from tilesight.simulator.device.device import catalogue, load_device
from tilesight.simulator.launch.program import Launch
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.schedules.registry import find_schedule

H200 = load_device("h200")
A100 = load_device("a100-sxm-80gb")
PREFILL = AttentionProblem(batch=4, heads=16, seqlen_q=4096, seqlen_k=4096, head_dim=128)
DECODE = AttentionProblem(batch=64, heads=64, kv_heads=8, seqlen_q=1, seqlen_k=8192, head_dim=128)

problems = st.builds(
    AttentionProblem,
    batch=st.integers(1, 8),
    heads=st.just(4),
    kv_heads=st.sampled_from((1, 2, 4)),
    seqlen_q=st.integers(1, 3000),
    seqlen_k=st.integers(1, 3000),
    head_dim=st.sampled_from((16, 64, 80, 128, 256)),
    dtype=st.sampled_from(("fp16", "bf16", "fp32")),
    causal=st.booleans(),
)

CLOCKS = H200.tensor_boost_clock_hz / H200.boost_clock_hz
"""Exponentials may run in a launch without products, at the higher clock."""


def launches_of(problem: AttentionProblem, schedule: str) -> tuple[Launch, ...]:
    chosen = find_schedule(schedule)
    return chosen.launches(problem, chosen.default, H200)


def by_name(problem: AttentionProblem, schedule: str) -> dict[str, Roofline]:
    return {launch.name: launch_roofline(launch, H200, l2="cold") for launch in launches_of(problem, schedule)}


def test_a100_tensor_cores_reach_312_tflop_per_s() -> None:
    """A100 whitepaper, Table 1: dense fp16 and bf16 at the boost clock of 1.41 GHz."""
    assert tensor_peak_flop_per_s(A100, "fp16") == pytest.approx(312e12, rel=1e-3)
    assert tensor_peak_flop_per_s(A100, "bf16") == tensor_peak_flop_per_s(A100, "fp16")


def test_ridge_is_peak_over_bandwidth() -> None:
    """Roofline (2009): where the slanted and the flat part of the roof meet; it falls with the clock."""
    at_boost = ridge_flop_per_byte(H200, "fp16")
    assert at_boost * H200.hbm_read_bytes_per_s == pytest.approx(132 * 4096 * H200.tensor_boost_clock_hz)
    at_tensor_clock = ridge_flop_per_byte(H200, "fp16", H200.tensor_clock_hz)
    assert at_tensor_clock / at_boost == pytest.approx(H200.tensor_clock_hz / H200.tensor_boost_clock_hz)


def test_long_prompts_are_bound_by_tensor_cores() -> None:
    """Intensity of 4 M N D over 2 (2 M + 2 N) D bytes is M / 2 = 2048 FLOP/B, far above the ridge."""
    bound = roofline(PREFILL, H200)
    assert bound.bottleneck == "tensor"
    assert bound.bound_s == bound.tensor_s
    assert bound.tensor_flop / bound.hbm_bytes == 2048 > ridge_flop_per_byte(H200, "fp16")


def test_decoding_is_bound_by_device_memory() -> None:
    """One query row of each of eight heads uses each key once: about 8 FLOP/B, far below the ridge."""
    bound = roofline(DECODE, H200)
    assert bound.bottleneck == "hbm"
    assert bound.tensor_flop / bound.hbm_bytes == pytest.approx(8, rel=0.01)
    assert ridge_flop_per_byte(H200, "fp16") > 9


def test_exponentials_take_half_as_long_as_products_at_head_dim_128() -> None:
    """512 matmul FLOP an exponential, 256 times the rate: FlashAttention-3 (2024), section 3.1, Hopper, in cycles."""
    bound = roofline(PREFILL, H200)
    assert bound.tensor_flop == 512 * bound.exp_count
    assert bound.mufu_s / bound.tensor_s == pytest.approx(0.5 * CLOCKS)


def test_exponentials_bind_below_head_dim_64() -> None:
    """The ratio above doubles with every halving of D: at D = 32 exponentials take twice as long."""
    bound = roofline(replace(PREFILL, head_dim=32), H200)
    assert bound.bottleneck == "mufu"
    assert bound.mufu_s / bound.tensor_s == pytest.approx(2 * CLOCKS)


def test_outputs_that_fit_into_l2_need_not_reach_device_memory() -> None:
    """Dirty lines may still be in L2 when the kernel ends, so only what exceeds L2 is sure to be written."""
    inputs_s = DECODE.compulsory.read_bytes / H200.hbm_read_bytes_per_s
    assert roofline(DECODE, H200).hbm_s == inputs_s
    moved = DECODE.compulsory.read_bytes, H200.l2_bytes + 10**9
    written = bounds(H200, "fp16", moved, tensor_flop=0, exp_count=0)
    assert written.hbm_s - inputs_s == pytest.approx(1e9 / H200.hbm_write_bytes_per_s)


@given(problems, st.sampled_from(catalogue()))
def test_bound_is_its_slowest_resource(problem: AttentionProblem, name: str) -> None:
    """And no resource is negative, on any device of the catalogue."""
    bound = roofline(problem, load_device(name))
    times = {"hbm": bound.hbm_s, "tensor": bound.tensor_s, "mufu": bound.mufu_s}
    assert min(times.values()) >= 0
    assert bound.bound_s == max(times.values()) == times[bound.bottleneck]


@given(problems)
def test_bound_of_the_launch_is_no_lower_than_that_of_the_problem(problem: AttentionProblem) -> None:
    """Tiles only add: padding, masked scores, statistics."""
    whole, launch = roofline(problem, H200), by_name(problem, "flash2")["flash2"]
    assert launch.hbm_bytes >= whole.hbm_bytes
    assert launch.tensor_flop >= whole.tensor_flop
    assert launch.exp_count >= whole.exp_count
    assert launch.bound_s >= whole.bound_s


def test_each_launch_has_its_own_bottleneck() -> None:
    """The softmax has no products: it is bound by the scores it reads and writes."""
    bounds = by_name(PREFILL, "naive")
    scores_bytes = 4 * 16 * 4096 * 4096 * 2
    assert bounds["softmax"].bottleneck == "hbm"
    assert bounds["softmax"].hbm_bytes == 2 * scores_bytes
    assert bounds["softmax"].tensor_flop == 0
    assert bounds["output"].hbm_bytes == scores_bytes + 2 * 4 * 16 * 4096 * 128 * 2


def test_what_a_launch_stores_before_it_loads_need_not_be_read() -> None:
    """FlashAttention-1 stores O, l and m before it reads them back, perhaps from L2."""
    problem = replace(PREFILL, head_dim=64)
    least = problem.compulsory
    statistics_bytes = 2 * 4 * 16 * 4096 * 4
    assert by_name(problem, "flash1")["flash1"].hbm_bytes == least.total_bytes + statistics_bytes


def test_launches_are_warm_unless_told_otherwise() -> None:
    """The launch before may have left its output in L2."""
    launch = launches_of(replace(PREFILL, batch=1, heads=1, kv_heads=1), "naive")[1]
    assert launch_roofline(launch, H200).hbm_s == 0 < launch_roofline(launch, H200, l2="cold").hbm_s


def test_types_that_a_device_cannot_multiply_are_named() -> None:
    """An A100 has no fp8 tensor cores."""
    with pytest.raises(ValueError, match=r"dtype = 'fp8': .*A100.* has no tensor instruction for it"):
        roofline(replace(PREFILL, dtype="fp8"), A100)
