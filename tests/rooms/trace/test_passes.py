"""Additions in passes: what several lanes of a warp add to one word, L2 is sent one after the other."""

import numpy as np
import pytest
from tilesight.simulator.trace.cta.cta_run import CtaAccess
from tilesight.simulator.trace.touch.footprints import stored_sectors
from tilesight.simulator.trace.touch.grouped_accesses import by_warp, passes_of, stored_by
from tilesight.simulator.trace.touch.scattered.sectors import SECTOR_BITS, added_to

LANES = np.arange(32)
ALL = np.ones((1, 1, 32), dtype=np.bool_)


def of_warp(addresses: np.ndarray) -> tuple[list[int], int]:
    """Sectors that a warp adds words of 4 B to, one for each pass, and the passes over a part of a sector."""
    sectors, in_part = added_to(addresses.reshape(1, 1, 32), ALL, 4)
    return (sectors & (1 << SECTOR_BITS) - 1).tolist(), in_part


def test_lanes_at_one_word_take_a_pass_each() -> None:
    """4,325,376 sectors of 135,168 warps' additions, counted on an H100 (validate/lab/scattered_adds.cu): 32 each."""
    assert of_warp(np.full(32, 64)) == ([2] * 32, 32)


def test_all_words_of_a_sector_are_added_to_in_as_many_passes_as_lanes_are_at_each() -> None:
    """540,672 sectors of as many warps were counted: four each, whole ones."""
    assert of_warp(LANES % 8 * 4) == ([0] * 4, 0)


def test_a_line_is_added_to_in_one_pass_over_each_sector() -> None:
    """Four, each whole."""
    assert of_warp(LANES * 4) == ([0, 1, 2, 3], 0)


def test_the_word_with_most_lanes_says_how_many_passes_its_sector_takes() -> None:
    """24 lanes along three sectors; seven at one word of a fourth, and one beside them, which shares a pass."""
    addresses = np.concatenate([LANES[:24] * 4, [128, *[132] * 7]])
    assert of_warp(addresses) == ([0, 1, 2, *[4] * 7], 7)


def test_scattered_lanes_take_as_many_passes_as_an_h100_counted() -> None:
    """3,057,961 in eight lines (validate/lab/scattered_adds.cu), 1.7 % more than lanes are at a word."""
    drawn = np.arange(135_168 * 32, dtype=np.uint32) * np.uint32(2654435761)
    for factor, shift in ((0x85EBCA6B, 16), (0xC2B2AE35, 13)):
        drawn = (drawn ^ drawn >> np.uint32(shift)) * np.uint32(factor)
    drawn ^= drawn >> np.uint32(16)
    addresses = (drawn % 256).astype(np.int64).reshape(-1, 1, 32) * 4
    sectors, _ = added_to(addresses, np.ones(addresses.shape, dtype=np.bool_), 4)
    assert len(sectors) == pytest.approx(3_057_961, rel=0.02)


def test_warps_take_passes_of_their_own() -> None:
    """Two warps of a CTA at one line: each adds to all of it."""
    addresses = np.broadcast_to(LANES * 4, (1, 2, 32))
    sectors, in_part = added_to(addresses, np.ones((1, 2, 32), dtype=np.bool_), 4)
    assert (sorted(sectors.tolist()), in_part) == ([0, 0, 1, 1, 2, 2, 3, 3], 0)


def test_passes_of_a_warp_hold_each_address_once() -> None:
    """And in later passes only addresses of as many lanes."""
    first, second, third = passes_of(np.array([8, 4, 8, 12, 8, 4]))
    assert (first.tolist(), second.tolist(), third.tolist()) == ([4, 8, 12], [4, 8], [8])


def test_a_comparison_brings_two_operands_half_of_the_words_in_a_pass() -> None:
    """An H200 compares along a line in twice the time that it exchanges in, and at one word in the same."""
    line, word = (
        CtaAccess(place=0, visit=0, addresses=addresses.reshape(1, 32), active=ALL[0], size_bytes=4, anchor=0)
        for addresses in (LANES * 4, np.full(32, 64))
    )
    assert [len(part.addresses) for part in by_warp(line, in_passes=True, compared=True)] == [16, 16]
    assert [len(part.addresses) for part in by_warp(word, in_passes=True, compared=True)] == [1] * 32


@pytest.mark.parametrize(
    ("size_bytes", "off_bytes", "accesses"), [(4, 0, 4), (4, 4, 3 + 2 * 2), (8, 8, 7 + 2 * 2), (16, 16, 15 + 2 * 2)]
)
def test_a_sector_that_a_warp_stores_to_in_part_counts_twice(size_bytes: int, off_bytes: int, accesses: int) -> None:
    """From a word behind a line on, the first and the last sector of a warp's row are such ones, of two warps each."""
    addresses, active = np.arange(64).reshape(2, 32) * size_bytes + off_bytes + 4096, np.ones((2, 32), dtype=np.bool_)
    stores = CtaAccess(place=0, visit=0, addresses=addresses, active=active, size_bytes=size_bytes, anchor=0)
    assert stored_sectors([stored_by(stores)]) == 2 * accesses


def test_what_a_warp_stores_to_a_sector_one_after_the_other_reaches_l2_together() -> None:
    """16 stores of 2 B fill the sectors that none of them fills: an H200 takes such rows as fast as whole sectors."""
    # Softmax and element-wise kernels over rows of 3,000 keys, whose stores Triton makes 2 B wide: 2.04 to 2.13 million
    # cycles measured, 2.04 to 2.08 predicted so, and 3.47 with 16 accesses a sector.
    stores = [
        CtaAccess(place=at, visit=0, addresses=addresses.reshape(1, 32), active=ALL[0], size_bytes=2, anchor=0)
        for at, addresses in enumerate(LANES * 32 + 2 * at for at in range(16))
    ]
    assert stored_sectors([stored_by(store) for store in stores]) == 32
    assert stored_sectors([stored_by(store) for store in stores[:8]]) == 2 * 32
