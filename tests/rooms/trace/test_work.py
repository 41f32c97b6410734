"""What a CTA computes, counted from its instructions: products of a warp or of a warpgroup, exponentials of lanes."""

import pytest
from support.listings import flow_of
from tilesight.simulator.trace.paths import OUTSIDE, CtaPaths, find_paths
from tilesight.simulator.trace.program.work import work_of

TRIPS = 5
EXPONENTIAL = "MUFU.EX2 R2, R2"
OF_A_WARP, OF_A_WARPGROUP = "HMMA.16816.F32 R4, R8, R12, R4", "HGMMA.64x128x16.F32 R24, gdesc[UR4], R24"
WARP_FLOP, WARPGROUP_FLOP = 2 * 16 * 8 * 16, 2 * 64 * 128 * 16
"""A multiplication and an addition for each of m x n x k."""


def paths_of(warps: int, *body: str) -> CtaPaths:
    """All warps go through a loop of these instructions five times, after an instruction and before an end."""
    flow = flow_of("MOV R0, RZ", *body, "@P0 BRA 0x10", "EXIT")
    return find_paths(flow, [[0, *[1] * TRIPS, 2]] * warps)


@pytest.mark.parametrize("warps", [1, 4, 8])
def test_exponentials_are_those_of_all_lanes_of_all_warps(warps: int) -> None:
    """32 for an instruction of a warp: three instructions in each iteration, none around the loop."""
    work = work_of(paths_of(warps, *[EXPONENTIAL] * 3))
    assert work[0, 0].exp_count == 3 * 32 * warps
    assert work[OUTSIDE, 0].exp_count == 0


@pytest.mark.parametrize("warps", [4, 8])
@pytest.mark.parametrize(
    ("instruction", "together", "flop"), [(OF_A_WARP, 1, WARP_FLOP), (OF_A_WARPGROUP, 4, WARPGROUP_FLOP)]
)
def test_a_product_counts_once_for_the_warps_that_make_it_together(
    instruction: str, together: int, flop: int, warps: int
) -> None:
    """Each warp makes its own `mma`; the four of a warpgroup issue one `wgmma`, and it is one."""
    work = work_of(paths_of(warps, *[instruction] * 4))
    assert sum(matmul.flop for matmul in work[0, 0].matmuls) == 4 * flop * warps // together
    assert work[OUTSIDE, 0].matmuls == ()


def test_warps_that_do_something_else_count_for_themselves() -> None:
    """Of a producer and four consumers, which run a loop of their own, the four multiply."""
    flow = flow_of(
        "@P0 BRA 0x30", "@P1 BRA 0x10", "EXIT", OF_A_WARPGROUP, "@P1 BRA 0x30", "EXIT"
    )  # blocks 0: begin, 1 and 2: producer, 3 and 4: consumers
    paths = find_paths(flow, [[0, *[1] * TRIPS, 2], *[[0, *[3] * TRIPS, 4]] * 4])
    (flops,) = {sum(matmul.flop for matmul in work.matmuls) for part, work in work_of(paths).items() if part[0] == 0}
    assert flops == WARPGROUP_FLOP
