"""Users' kernels that were answered wrong once, held against an H100 and against what GeForce cards can do."""

import pytest

pytest.importorskip("triton")
import torch
from users_kernels import elementwise, histograms, layer_norm, matmul

from tilesight import capture, predict

MEASURED_S = {
    "hist": 51.6e-6,
    "hist_atomic": 1083e-6,
    "sine": 45.8e-6,
    "rare": 46.0e-6,
    "ln_bwd_atomic": 112e-6,
}
"""On an H100 SXM, by a profiler on flushed caches (2026-11-25, torch 2.11.0, triton 3.6.0) [s]."""
OFF = 0.15
"""The largest error of these is 14 %: `ln_bwd_atomic`."""
GEFORCE_FLOP_PER_S = {("rtx-4090", torch.float16): 165.2e12, ("rtx-4090", torch.float8_e4m3fn): 330.3e12}
"""NVIDIA Ada GPU Architecture whitepaper: tensor cores, sums in fp32, without sparsity."""


def test_users_kernels_take_what_an_h100_measured() -> None:
    """Contended atomics, slow paths of libdevice, a branch that is hardly ever taken."""
    with capture("h100-sxm") as launches:
        histograms()
        elementwise()
        layer_norm()
    rows = predict(launches, "h100-sxm").rows
    assert {row.name: row.refused for row in rows} == dict.fromkeys(MEASURED_S)
    off = {row.name: row.traffic.time_s / MEASURED_S[row.name] - 1.0 for row in rows}
    assert max(off.values(), key=abs) == pytest.approx(0.0, abs=OFF), off


def test_an_array_in_local_memory_is_no_spill() -> None:
    """`sin` reduces large arguments in an array of seven words, which ptxas counts as stack, not as spills."""
    with capture("h100-sxm") as launches:
        elementwise()
    predicted = predict(launches, "h100-sxm")
    assert predicted.rows[0].to_dict()["spilled_bytes_per_thread"] == 0
    assert "no spills" not in str(predicted)


@pytest.mark.parametrize(("name", "dtype"), GEFORCE_FLOP_PER_S)
def test_no_matmul_beats_the_tensor_cores_of_its_card(name: str, dtype: torch.dtype) -> None:
    """The opcodes of an architecture are timed on its workstation cards; GeForce cards sum at half their rate."""
    n = 4096
    with capture(name) as launches:
        matmul(n, dtype)
    (row,) = predict(launches, name).rows
    assert 0.5 < 2 * n**3 / row.traffic.time_s / GEFORCE_FLOP_PER_S[name, dtype] <= 1.0
