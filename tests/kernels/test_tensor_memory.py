"""Matmuls in tensor memory (tcgen05) of compiled kernels: as large as their tiles, no faster than the B200."""

import pytest

pytest.importorskip("triton")
import torch
from users_kernels import first_visits, matmul
from zoo.descriptors import CASES

from tilesight import capture, load_device, predict

FLOP_PER_CYCLE = {torch.float16: 8192, torch.bfloat16: 8192, torch.float8_e4m3fn: 16384}
"""NVIDIA Blackwell Architecture Technical Brief: dense, per SM."""


@pytest.mark.parametrize("dtype", FLOP_PER_CYCLE)
def test_a_gemm_on_a_b200_executes_its_operations_below_peak(dtype: torch.dtype) -> None:
    """Refused before: the opcode does not tell how large its product is."""
    n, device = 4096, load_device("b200")
    with capture("b200") as launches:
        matmul(n, dtype)
    (row,) = predict(launches, "b200").rows
    assert row.refused is None
    assert row.traffic.executed_flop == 2 * n**3
    peak = FLOP_PER_CYCLE[dtype] * device.sms * device.boost_clock_hz
    assert 0.05 < 2 * n**3 / row.traffic.time_s / peak < 1.0


@pytest.mark.parametrize("device", ["b200", "rtx-5090"])
@pytest.mark.parametrize("name", ["copy_boxes", "gemm_host", "gemm_host_edges", "gemm_persistent_host"])
def test_descriptors_that_are_parameters_are_known_on_blackwell(name: str, device: str) -> None:
    """Their parameters begin elsewhere in the constant bank than Hopper's."""
    with capture(device) as launches:
        CASES[name]("meta")()
    (row,) = predict(launches, device).rows
    assert row.refused is None


@pytest.mark.parametrize("device", ["h200", "b200"])
@pytest.mark.parametrize("diagonal", [False, True])
def test_visits_of_a_loop_that_differ_take_the_time_of_their_matmuls(diagonal: bool, device: str) -> None:
    """One visit stood for all, or the CTA of two visits for that of one: laws refused the answer."""
    with capture(device) as launches:
        flop = first_visits(diagonal)
    (row,) = predict(launches, device).rows
    assert row.refused is None
    assert row.traffic.executed_flop == pytest.approx(flop, rel=0.01)
