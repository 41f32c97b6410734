"""What the IR of a kernel tells of its tiles, held against closed forms; nothing is compiled."""

from typing import Any

import pytest
from tilesight.kernels.launch.availability import missing_package
from tilesight.simulator.device.device import load_device

if missing_package() is None:
    import torch
    import triton
    import triton.language as tl
    from tilesight.kernels.capture.lowering import lower_or_refuse
    from tilesight.kernels.compile.call import KernelLaunch
    from tilesight.kernels.configurations.tiles import tiles_of
    from zoo import tiled

    import tilesight
    from tilesight.tuning.tile_work import static_work

    @triton.jit
    def ending(X, Y, LENGTH, n, BLOCK: tl.constexpr, TWICE: tl.constexpr):
        """Ends early beyond a length that lies in memory; a loop that nobody can foretell where it is asked for."""
        if tl.program_id(0) * BLOCK >= tl.load(LENGTH):
            return
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(X + i, mask=i < n)
        if TWICE:
            left = tl.load(LENGTH)
            while left > 1:
                x, left = x * 2, left // 2
        tl.store(Y + i, x, mask=i < n)


pytestmark = pytest.mark.skipif(missing_package() is not None, reason=str(missing_package()))


def half(*shape: int) -> Any:
    """A tensor of fp16 without data."""
    return torch.empty(*shape, dtype=torch.float16, device="meta")


def lowered(kernel: Any, grid: tuple[int, ...], *arguments: Any, **named: Any) -> "KernelLaunch":
    """A launch with its IR."""
    with tilesight.capture("h100") as launches:
        kernel[grid](*arguments, **named)
    call = lower_or_refuse(launches[0], 90)
    assert isinstance(call, KernelLaunch)
    return call


def tiles_of_launch(call: "KernelLaunch") -> Any:
    """What the IR tells of a launch."""
    return tiles_of(call.job["ttir"], call.grid, call.arguments, call.storages)


@pytest.mark.parametrize("name, grid", [("gemm_one_loop", 128), ("gemm_persistent", 60)])
def test_a_product_loads_its_operands_tile_by_tile(name: str, grid: int) -> None:
    """Also where a CTA takes several tiles, some one more than others. A store behind `if` is none of mid-loop."""
    rows, columns, depth, k, tiles = 128, 64, 32, 1024, 128
    a, b, c = (half(1024, 1024) for _ in range(3))
    call = lowered(getattr(tiled, name), (grid,), a, b, c, 1024, 1024, k, BM=rows, BN=columns, BK=depth)
    counted = tiles_of_launch(call)
    assert counted.ctas == grid
    of_each = tiles / grid
    assert counted.loaded_bytes == pytest.approx(of_each * k * (rows + columns) * 2, rel=0.01)
    stored = 0 if name == "gemm_one_loop" else of_each * rows * columns * 2
    assert counted.stored_bytes == pytest.approx(stored, rel=0.01)
    (dot,) = counted.dots
    assert (dot.m, dot.n, dot.k, dot.kind) == (rows, columns, depth, "f16")
    assert dot.times == pytest.approx(of_each * k / depth, rel=0.01)
    inner = counted.loops[-1]
    assert (inner.loaded_bytes, inner.products, inner.held_bytes) == (
        depth * (rows + columns) * 2,
        1,
        rows * columns * 4,
    )
    device = load_device("h100")
    work = static_work(call, device)
    assert work.ctas == grid and work.fill_bytes == counted.loaded_bytes + counted.stored_bytes
    assert work.sm_cycles > dot.times * 2 * rows * columns * depth / device.wgmma_fp16_flop_per_cycle


def test_an_early_end_counts_for_those_that_come_to_it() -> None:
    """A quarter of the CTAs goes on: the length is read from memory."""
    length = torch.tensor([64 * 256], dtype=torch.int32)
    call = lowered(ending, (256,), half(1 << 16), half(1 << 16), length, 1 << 16, BLOCK=256, TWICE=False)
    assert tiles_of_launch(call).loaded_bytes == pytest.approx(512 / 4, rel=0.05)


def test_of_a_loop_that_only_its_data_end_nothing_is_told() -> None:
    """Whoever asks has to predict it."""
    length = torch.tensor([64 * 256], dtype=torch.int32)
    call = lowered(ending, (256,), half(1 << 16), half(1 << 16), length, 1 << 16, BLOCK=256, TWICE=True)
    assert tiles_of_launch(call) is None and static_work(call, load_device("h100")) is None


def test_what_cannot_fit_comes_last() -> None:
    """Stages that no CTA has shared memory for."""
    a, b, c = (half(1024, 1024) for _ in range(3))
    shape = {"BM": 128, "BN": 128, "BK": 64}
    few, many = (
        static_work(lowered(tiled.gemm_one_loop, (64,), a, b, c, 1024, 1024, 1024, num_stages=stages, **shape),
                    load_device("h100"))
        for stages in (3, 12)
    )  # fmt: skip
    assert few.sm_cycles < float("inf") == many.sm_cycles
