"""CTAs that an SM has room for, and that a grid does not have, slow nobody."""

from dataclasses import replace

import pytest
from tilesight.kernels.launch.availability import missing_package
from tilesight.simulator.device.device import load_device

if missing_package() is None:
    import torch
    import triton
    import triton.language as tl

    import tilesight

    @triton.jit
    def row_sums(x, out, n, BLOCK: tl.constexpr):
        i = tl.arange(0, BLOCK)
        total = tl.zeros([BLOCK], tl.float32)
        for at in range(0, n, BLOCK):
            total += tl.exp(tl.load(x + tl.program_id(0) * n + at + i))
        tl.store(out + tl.program_id(0), tl.sum(total))


@pytest.mark.skipif(missing_package() is not None, reason=str(missing_package()))
@pytest.mark.parametrize("warps", [1, 2, 4])
def test_a_cta_that_has_an_sm_to_itself_takes_as_long_whatever_else_would_fit(warps: int) -> None:
    """Of 128 CTAs each has an SM; of few warps it has sub-cores of its own, and all of them are its costs."""
    x, out = (torch.empty(size, device="meta") for size in (128 << 16, 128))
    device = load_device("h200")
    with tilesight.capture(device) as launches:
        row_sums[(128,)](x, out, 1 << 16, BLOCK=1024, num_warps=warps)
    times_s = [
        tilesight.predict(launches, gpu, l2="cold").total.time_s for gpu in (device, replace(device, max_ctas_per_sm=1))
    ]
    assert times_s[0] == pytest.approx(times_s[1], rel=0.02)
