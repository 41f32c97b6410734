"""Blocks are handed out as torch's caching allocator does, which a peak of memory is made of."""

import pytest
from support.lab import DATA
from tilesight.simulator.device.device import load_device
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.residency.device_memory import Allocator, allocated_bytes
from tilesight.simulator.schedules.config import Config
from tilesight.simulator.simulate import launches_of, peak_memory_bytes
from tilesight.validate.measure.results_file import read_results
from tilesight.validate.measurement import Measurement

MIB = 1 << 20
ROWS = DATA / "h200-2026-11-22-seed4.jsonl.xz"


@pytest.mark.parametrize(
    ("size_bytes", "held_bytes"),
    [(1, 512), (MIB, MIB), (3 * MIB + 1, 3 * MIB + 512), (12 * MIB - 5, 12 * MIB), (11 * MIB - 512, 11 * MIB - 512)],
)
def test_a_tensor_alone_takes_its_size_or_its_segment(size_bytes: int, held_bytes: int) -> None:
    """A rest of up to 1 MiB stays with the block; a larger one is free."""
    assert allocated_bytes([size_bytes]) == held_bytes


def test_tensors_are_cut_from_what_others_left() -> None:
    """12 MiB less a little fits behind 3 MiB in a segment of 20, and is no larger than it must be there."""
    less = 12 * MIB - 4096
    assert allocated_bytes([3 * MIB, less]) == 3 * MIB + less
    assert allocated_bytes([less, 3 * MIB]) == 15 * MIB


def test_what_is_freed_becomes_one_with_what_is_free_beside_it() -> None:
    """Of 6, 6 and 6 MiB in a segment of 20 the first two make room for 12, whichever goes first."""
    for first, second in ((0, 1), (1, 0)):
        allocator = Allocator()
        blocks = [allocator.take(6 * MIB) for _ in range(3)]
        allocator.free(blocks[first])
        allocator.free(blocks[second])
        again = allocator.take(12 * MIB - 512)
        assert again[1:] == (blocks[0][1], 0)
        assert allocator.held_bytes == 18 * MIB
        assert allocator.peak_bytes == 18 * MIB


def test_the_smallest_free_block_that_is_large_enough_is_taken() -> None:
    """Of rests of 8 and 4 MiB, 3 MiB are cut from that of 4."""
    allocator = Allocator()
    for size in (9 * MIB, 3 * MIB):  # one segment of 20, with 8 left
        allocator.take(size)
    whole = allocator.take(16 * MIB)
    allocator.free(whole)
    allocator.take(12 * MIB)  # from those 16, with 4 left
    assert allocator.take(3 * MIB)[1] == whole[1]


def test_peak_memory_of_measured_points_is_right_to_the_byte() -> None:
    """All 364 points of one draw, all schedules, measured on an H200."""
    device = load_device("h200")
    measured = [row for row in read_results(ROWS)[1] if isinstance(row.outcome, Measurement)]
    assert len(measured) > 350
    assert sum(dict(row.point.config_dict).get("warp_specialize") == 1 for row in measured) >= 5
    for row in measured:
        point = row.point
        predicted = peak_memory_bytes(point.problem, point.schedule, point.config, device)
        assert predicted == row.outcome.peak_memory_bytes, point.key


def test_a_specialised_launch_takes_a_descriptor_for_each_cta() -> None:
    """128 B each, beside 4096 x 4096 keys and queries of 32 heads; others take nothing."""
    problem = AttentionProblem(batch=1, heads=32, seqlen_q=4096, seqlen_k=4096, head_dim=64)
    for specialised, ctas in ((0, 0), (1, 32 * 4096 // 128)):
        config = Config(block_m=128, block_n=64, num_warps=4, num_stages=2, warp_specialize=specialised)
        (launch,) = launches_of(problem, "flash2_tma", config, load_device("h200"))
        assert launch.workspace_bytes == 128 * ctas
