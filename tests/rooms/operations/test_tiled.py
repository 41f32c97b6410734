"""The rank of tiles: never above what the device can do, and in the order of whole predictions."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from tilesight.simulator.device.device import load_device
from tilesight.simulator.operations.tiled import Tiled, tiled_s

H200 = load_device("h200")
SIZES = st.sampled_from([16, 32, 64, 128, 256])


def tiles(m: int, n: int, k: int, block: tuple[int, int, int], num_warps: int = 8, num_stages: int = 4) -> Tiled:
    """A product of bf16 in tiles."""
    rows, columns, depth = block
    return Tiled(
        batch=1,
        m=m,
        n=n,
        k=k,
        block_m=rows,
        block_n=columns,
        block_k=depth,
        num_warps=num_warps,
        num_stages=num_stages,
        item_bytes=2,
    )


@given(SIZES, SIZES, SIZES)
def test_no_tiles_beat_the_tensor_cores(rows: int, columns: int, depth: int) -> None:
    """Of the whole GPU, at the clock that they sustain; L2 moves each operand of each tile."""
    product = tiles(4096, 4096, 4096, (rows, columns, depth))
    flop_per_s = H200.fastest_flop_per_cycle("bf16") * H200.sms * H200.tensor_clock_hz
    moved = 4096 * 4096 // (rows * columns) * (rows + columns) * 4096 * 2
    assert tiled_s(product, H200) >= max(2 * 4096**3 / flop_per_s, moved / H200.l2_bytes_per_s)


def test_tiles_that_do_not_fit_an_sm_come_last() -> None:
    """Of shared memory."""
    product = tiles(4096, 4096, 4096, (128, 128, 128), num_stages=4)
    assert tiled_s(replace(product, num_stages=3), H200) < tiled_s(product, H200) == float("inf")


def test_large_products_want_large_tiles_and_one_row_of_tiles_deep_steps() -> None:
    """As whole predictions of Inductor's templates for an H200 have it: 219 and 284 us; 16.6 and 26.1 us."""
    large = tiles(2048, 8192, 4096, (128, 256, 64))
    assert tiled_s(large, H200) < tiled_s(replace(large, block_n=128, num_warps=4, num_stages=3), H200)
    few = tiles(16, 4096, 4096, (16, 32, 128), num_warps=2, num_stages=5)
    assert tiled_s(few, H200) < tiled_s(replace(few, block_k=32), H200)
