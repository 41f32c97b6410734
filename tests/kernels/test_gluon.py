"""Kernels written in Gluon are predicted like others."""

import pytest
from tilesight.kernels.launch.availability import missing_package

if missing_package():
    pytest.skip(str(missing_package()), allow_module_level=True)

import torch
from tilesight.simulator.prediction.kernels import KernelsPrediction
from triton.experimental.gluon.language import NVMMASharedLayout, float16
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor
from zoo import gluon, rowwise

import tilesight

N = 1024
BM, BN, BK = 64, 128, 64


def product(device: str) -> KernelsPrediction:
    """C = A B of N x N, fp16."""
    with tilesight.capture(device) as launches:
        tensors = [torch.empty(N, N, device="meta", dtype=torch.float16) for _ in range(3)]
        blocks = [[BM, BK], [BK, BN], [BM, BN]]
        layouts = [NVMMASharedLayout.get_default_for(block, float16) for block in blocks]
        operands = map(TensorDescriptor.from_tensor, tensors, blocks, layouts)
        gluon.product[N // BM, N // BN](*operands, N, num_warps=4)
    return tilesight.predict(launches, device)


def test_a_copy_moves_what_tritons_own_does() -> None:
    """Each element is read and written once, whatever the language."""
    with tilesight.capture("h200") as launches:
        x, y = (torch.empty(N * N, device="meta") for _ in range(2))
        gluon.copied[N,](x, y, N * N, BLOCK=N)
        rowwise.add[N,](x, x, y, N * N, BLOCK=N)
    copied, added = tilesight.predict(launches, "h200", l2="cold").rows
    assert copied.known_accesses == copied.accesses > 0
    assert copied.traffic.hbm_read_bytes == added.traffic.hbm_read_bytes == 4 * N * N
    assert copied.traffic.l2_write_bytes == added.traffic.l2_write_bytes == 4 * N * N


def test_a_tile_through_shared_memory_is_written_across() -> None:
    """Rows of 64 elements are read and written whole; the tile takes what it is declared with."""
    with tilesight.capture("h200") as launches:
        x, y = (torch.empty(N, N, device="meta") for _ in range(2))
        gluon.transposed[N // 64, N // 64](x, y, N, B=64)
    (row,) = tilesight.predict(launches, "h200").rows
    assert row.known_accesses == row.accesses > 0
    assert row.traffic.hbm_read_bytes == row.traffic.l2_write_bytes == 4 * N * N
    assert row.prediction is not None and row.prediction.smem_bytes_per_cta == 4 * 64 * 64


def test_boxes_and_products_of_a_warp_group_are_predicted() -> None:
    """Each CTA fetches a stripe of A and one of B; no time is shorter than that of the products."""
    (row,) = product("h200").rows
    ctas = N // BM * (N // BN)
    assert row.refused is None and row.known_accesses == row.accesses == 3
    assert row.traffic.smem_fill_bytes == ctas * (BM + BN) * N * 2
    assert row.traffic.time_s > 2 * N**3 / 989e12


def test_groups_that_share_a_ring_of_barriers_each_store_their_part() -> None:
    """Tiles are loaded once and stored twice, by two groups of warps; where the time is a guess, that stands first."""
    tiles, rows, ctas = 64, 64, 8
    with tilesight.capture("h200") as launches:
        x, y = (torch.empty(count * tiles * rows, 64, device="meta", dtype=torch.float16) for count in (1, 2))
        layout = NVMMASharedLayout.get_default_for([rows, 64], float16)
        operands = [TensorDescriptor.from_tensor(tensor, [rows, 64], layout) for tensor in (x, y)]
        gluon.doubled[ctas,](*operands, tiles, rows, 64, num_warps=4)
    predicted = tilesight.predict(launches, "h200")
    (row,) = predicted.rows
    assert row.refused is None and row.ceiling is not None and row.known_accesses == row.accesses
    tile_bytes = tiles * rows * 64 * 2
    moved = {tensor.name: (tensor.loaded_bytes, tensor.stored_bytes) for tensor in row.ceiling.tensors}
    assert moved == {"X": (tile_bytes, 0), "Y": (0, 2 * tile_bytes)}
    if row.cost_doubt:
        assert predicted.remarks[0] == f"Note     {row.cost_doubt}"


def test_an_instruction_that_the_target_lacks_is_named() -> None:
    """In the words of the instruction set; no process's death is told."""
    (row,) = product("a100-sxm-80gb").rows
    assert row.refused is not None
    assert row.refused.startswith("kernel product: wgmma.")
    assert row.refused.endswith(" is an instruction that sm_80 does not have")
