"""Estimated registers and shared memory of a CTA."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.strategies import TOY, TOY_TCGEN05, TOY_WGMMA
from tilesight.simulator.device.device import Device
from tilesight.simulator.launch.program import Resources
from tilesight.simulator.residency.registers_and_smem import (
    CtaTiles,
    exchanged_bytes,
    tensor_instruction,
)


def estimate(device: Device, **tiles: Any) -> Resources:
    """What a CTA with these tiles takes."""
    return CtaTiles(**tiles).estimated(device)


@pytest.mark.parametrize(
    ("device", "block_m", "num_warps", "instruction"),
    [
        (TOY, 128, 4, "mma"),
        (TOY_WGMMA, 64, 4, "wgmma"),
        (TOY_WGMMA, 128, 8, "wgmma"),
        (TOY_WGMMA, 32, 4, "mma"),
        (TOY_WGMMA, 64, 2, "mma"),
        (TOY_TCGEN05, 128, 4, "tcgen05"),
        (TOY_TCGEN05, 16, 4, "mma"),
    ],
)
def test_warpgroup_instructions_take_64_rows_from_four_warps(
    device: object, block_m: int, num_warps: int, instruction: str
) -> None:
    """Everything else is mma.sync."""
    assert tensor_instruction(device, block_m, num_warps) == instruction  # type: ignore[arg-type]


def test_wgmma_keeps_one_buffer_more_than_mma() -> None:
    """num_stages buffers against num_stages - 1, since wgmma reads shared memory late."""
    ask = {"block_m": 64, "num_warps": 4, "num_stages": 3, "staged_bytes": 1000}
    assert estimate(TOY, **ask).smem_bytes_per_cta == 2000
    assert estimate(TOY_WGMMA, **ask).smem_bytes_per_cta == 3000
    assert estimate(TOY_TCGEN05, **ask).smem_bytes_per_cta == 3000


def test_without_stages_the_tiles_of_each_product_take_turns() -> None:
    """K and V pass through one buffer, half of what an iteration loads; one product needs all of its tiles at once."""
    ask = {"block_m": 64, "num_warps": 4, "num_stages": 1, "staged_bytes": 1000}
    for device in (TOY, TOY_WGMMA):
        assert estimate(device, **ask, turns=2).smem_bytes_per_cta == 500
        assert estimate(device, **ask).smem_bytes_per_cta == 1000


@pytest.mark.parametrize(("block_m", "columns", "passed"), [(64, 64, 0), (64, 128, 8192), (32, 64, 4096), (128, 64, 0)])
def test_mma_passes_p_through_shared_memory_where_rows_are_fewer_than_columns(
    block_m: int, columns: int, passed: int
) -> None:
    """Then the warps divide columns, and each needs all of P; wgmma keeps P in registers whatever the shape."""
    ask = {"block_m": block_m, "num_warps": 4, "num_stages": 1, "columns": columns, "operand_bytes": 128 * block_m}
    assert estimate(TOY, **ask).smem_bytes_per_cta == passed
    if block_m >= 64:
        assert estimate(TOY_WGMMA, **ask).smem_bytes_per_cta == 0


def test_operands_of_a_single_product_are_not_passed() -> None:
    """Tiles that wait in registers for their turn are no result of a product before."""
    ask = {"block_m": 32, "num_warps": 4, "num_stages": 1, "operand_bytes": 8192}
    assert estimate(TOY, **ask).smem_bytes_per_cta == 0


def test_what_is_exchanged_within_the_loop_lies_beside_the_stages_and_after_it_over_them() -> None:
    """The sum of the two, and the larger of the two."""
    ask = {"block_m": 64, "num_warps": 4, "num_stages": 2, "staged_bytes": 1000}
    assert estimate(TOY, **ask, exchange_bytes=600).smem_bytes_per_cta == 1600
    assert estimate(TOY, **ask, scratch_bytes=600).smem_bytes_per_cta == 1000
    assert estimate(TOY, **ask, scratch_bytes=6000).smem_bytes_per_cta == 6000


def test_a_tile_changes_its_layout_by_parts() -> None:
    """64 B a thread at a time, or the whole tile where it is smaller."""
    assert exchanged_bytes(4096, num_warps=4) == 4096
    assert exchanged_bytes(65536, num_warps=4) == 64 * 128
    assert exchanged_bytes(65536, num_warps=8) == 64 * 256


def test_mma_keeps_its_rows_of_q_in_registers() -> None:
    """128 threads: 32 sums each of S and of O, 16 registers each for P and for Q; wgmma reads Q from shared memory."""
    ask = {"block_m": 64, "num_warps": 4, "num_stages": 2, "columns": 64}
    ask |= {"accumulators": 2 * 64 * 64, "operand_bytes": 2 * 64 * 64, "resident_bytes": 2 * 64 * 64}
    assert estimate(TOY, **ask).registers_per_thread == 40 + 8 + 32 + 32 + 16 + 16
    assert estimate(TOY_WGMMA, **ask).registers_per_thread == 28 + 32 + 32 + 16 + 4  # in eights


def test_warps_beyond_the_rows_repeat_what_others_hold() -> None:
    """Eight warps of mma.sync have 128 rows among them: 64 rows take as many registers a thread as 128 do."""
    ask = {"num_warps": 8, "num_stages": 2, "columns": 32}
    few = estimate(TOY, block_m=64, accumulators=64 * 64, operand_bytes=64 * 64, **ask)
    many = estimate(TOY, block_m=128, accumulators=128 * 64, operand_bytes=128 * 64, **ask)
    assert few.registers_per_thread == many.registers_per_thread == 48 + 32 + 8


def test_warp_groups_that_share_rows_need_all_of_p() -> None:
    """Two groups with 64 rows between them: 16 registers for the part that each computed, and 32 for the whole."""
    ask = {"num_warps": 8, "num_stages": 2, "columns": 64}
    shared = estimate(TOY_WGMMA, block_m=64, operand_bytes=64 * 128 * 2, **ask)
    apart = estimate(TOY_WGMMA, block_m=128, operand_bytes=128 * 64 * 2, **ask)
    assert apart.registers_per_thread == 28 + 16 + 4  # in eights
    assert shared.registers_per_thread == 28 + 16 + 32 + 4


def test_a_mask_takes_half_a_register_a_score() -> None:
    """It is compared with positions that stay in registers; what does not fit is computed again, not spilled."""
    ask = {"block_m": 64, "num_warps": 4, "num_stages": 2, "accumulators": 64 * 64}
    assert estimate(TOY, **ask).registers_per_thread == 72
    assert estimate(TOY, **ask, masked=64 * 64).registers_per_thread == 88
    assert estimate(TOY, **ask, masked=64 * 1024).spilled_bytes_per_thread == 0


def test_sums_fill_registers_and_then_spill() -> None:
    """128 threads: 64 x 128 sums are 64 registers each; what exceeds 255 goes to local memory."""
    ask = {"block_m": 64, "num_warps": 4, "num_stages": 1}
    fits = estimate(TOY, **ask, accumulators=64 * 128)
    assert (fits.registers_per_thread, fits.spilled_bytes_per_thread, fits.origin) == (104, 0, "estimated")
    spills = estimate(TOY, **ask, accumulators=256 * 128)
    assert (spills.registers_per_thread, spills.spilled_bytes_per_thread) == (255, 4 * (296 - 255))


def test_mma_spills_p_and_wgmma_converts_it_piece_by_piece() -> None:
    """192 sums a thread and 64 registers of P: 304 of 255 with mma.sync, 224 with wgmma."""
    ask = {"block_m": 128, "num_warps": 4, "num_stages": 2, "columns": 64}
    ask |= {"accumulators": 128 * 192, "operand_bytes": 128 * 128 * 2}
    assert estimate(TOY, **ask).spilled_bytes_per_thread == 4 * (304 - 255)
    assert estimate(TOY_WGMMA, **ask).spilled_bytes_per_thread == 0


def test_a_kernel_without_products_says_how_small_its_state_is() -> None:
    """In place of what loops with products need."""
    ask = {"block_m": 1, "num_warps": 4, "num_stages": 1, "accumulators": 128 * 8}
    assert estimate(TOY, **ask).registers_per_thread == 48
    assert estimate(TOY, **ask, state_registers=16).registers_per_thread == 24


@given(
    accumulators=st.integers(0, 1 << 18),
    num_warps=st.sampled_from((1, 2, 4, 8, 16, 32)),
    registers_per_sm=st.sampled_from((32768, 65536)),
)
def test_a_cta_always_fits_the_register_file(accumulators: int, num_warps: int, registers_per_sm: int) -> None:
    """The limit per thread falls with the number of threads."""
    device = replace(TOY, registers_per_sm=registers_per_sm)
    resources = estimate(device, block_m=64, num_warps=num_warps, num_stages=1, accumulators=accumulators)
    assert resources.registers_per_thread * 32 * num_warps <= registers_per_sm
    assert resources.registers_per_thread <= 255
