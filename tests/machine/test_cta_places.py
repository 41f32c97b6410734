"""A place of an SM is taken by a CTA for a while, however short it is: longer by CTAs of many warps."""

from dataclasses import replace

import pytest
from machine.toys import GPU, KIB, cost, launch, run, tensor
from tilesight.simulator.device.device import load_device
from tilesight.simulator.launch.program import Launch, Step

LASTING = replace(GPU, sm=replace(GPU.sm, cta_place_cycles=300.0, cta_place_warp_cycles=5.0))
"""Two SMs."""
H200 = load_device("h200")


def short_ctas(count: int, warps: int, ctas_per_sm: int) -> Launch:
    items = [(0,)] * count
    smem_bytes = GPU.smem_per_sm_bytes // ctas_per_sm - 2 * KIB
    made = launch((Step(name="work"),), (tensor("X", 1),), items, ("slab",), smem_bytes=smem_bytes)
    return replace(made, num_warps=warps)


def cycles(cta_cycles: int, *, count: int = 24, warps: int = 4, ctas_per_sm: int = 2) -> float:
    return run(short_ctas(count, warps, ctas_per_sm), costs={"work": cost(cta_cycles)}, gpu=LASTING).cycles


@pytest.mark.parametrize(("warps", "ctas_per_sm"), [(4, 2), (16, 2), (16, 1)])
def test_ctas_that_return_at_once_wait_for_a_place(warps: int, ctas_per_sm: int) -> None:
    """All but the first of a place begin 300 cycles, and 5 for each warp, after the one before."""
    turns = 24 // (2 * ctas_per_sm)
    expected = (turns - 1) * (300 + 5 * warps) + ctas_per_sm * 10
    assert cycles(10, warps=warps, ctas_per_sm=ctas_per_sm) == pytest.approx(expected, abs=10 * ctas_per_sm)


def test_longer_ctas_do_not_wait() -> None:
    """Places that are taken for longer anyway cost nothing more."""
    assert cycles(1000, ctas_per_sm=1) == 12 * 1000


@pytest.mark.parametrize(("warps", "resident", "ns"), [(24, 2, 0.786), (32, 2, 0.852), (16, 1, 1.433), (24, 1, 1.561)])
def test_an_h200_hands_out_empty_ctas_as_fast_as_measured(warps: int, resident: int, ns: float) -> None:
    """Nanoseconds a CTA, from launches of 150,000 and 450,000 (validate/lab/empty_ctas.cu), within 5 %."""
    sm = H200.sm
    place = (sm.cta_place_cycles + sm.cta_place_warp_cycles * warps) / H200.boost_clock_hz / H200.sms / resident
    assert place * 1e9 == pytest.approx(ns, rel=0.05)
