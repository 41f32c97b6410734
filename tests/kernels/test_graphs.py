"""Launches of a replayed CUDA graph, against public measurements that no number was derived from.

RRZE-HPC/gpu-benches at 1038c5d, gpu-small-kernels/*_graph.txt: doubles that are scaled, 256 threads a CTA, from one
launch to the next. Gaps were derived from launches of 64 to 520 kB; these are of 1.0 to 2.1 MB.
"""

import pytest
from tilesight.kernels.launch.availability import missing_package
from tilesight.simulator.device.device import load_device

import tilesight

if missing_package() is None:
    import torch
    import triton
    import triton.language as tl

    @triton.jit
    def scale(x, y, n, BLOCK: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(y + at, tl.load(x + at, mask=at < n) * 0.25, mask=at < n)


pytestmark = pytest.mark.skipif(missing_package() is not None, reason=str(missing_package()))


@pytest.mark.parametrize(
    ("device", "size", "us"),
    [
        ("h200", 67031, 1.45),
        ("h200", 134870, 1.64),
        ("a100-sxm-80gb", 65320, 1.61),
        ("a100-sxm-80gb", 103651, 1.75),
        ("a40", 67031, 1.49),
    ],
)
def test_a_graph_takes_the_run_of_the_ctas_and_a_gap(device: str, size: int, us: float) -> None:
    """Not the ramp of a single run, which is longer."""
    with tilesight.capture(device) as launches:
        x, y = (torch.empty(size, dtype=torch.float64, device="meta") for _ in "xy")
        scale[(triton.cdiv(size, 256),)](x, y, size, BLOCK=256, num_warps=8)
    in_graph, single = (
        tilesight.predict(launches, device=device, l2="warm", timing=way).total.time_s for way in ("graph", "single")
    )
    assert 1e6 * in_graph == pytest.approx(us, rel=0.1)
    ramp_s = load_device(device).launch_ramp_cycles / load_device(device).boost_clock_hz
    assert single - in_graph == pytest.approx(ramp_s - load_device(device).graph_gap_s, rel=1e-6)
