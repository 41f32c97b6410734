"""Rates of memory instructions from the addresses of their lanes, in kernels of a few lines."""

from dataclasses import replace

import numpy as np
import pytest
from support.listings import flow_of, launch_of, words
from tilesight.simulator.core.sm import instruction as op
from tilesight.simulator.device.sm_numbers import load_sm
from tilesight.simulator.sm.instructions import lower_code
from tilesight.simulator.sm.lane_addresses import with_lane_addresses
from tilesight.simulator.trace.executions import paths as followed_blocks
from tilesight.simulator.trace.paths import find_paths

SM = load_sm("sm_90")
APART = ("S2R R0, SR_TID.X", "IMAD.WIDE R2, R0, c[0x0][0x210], RZ", "ISETP.LT.AND P0, PT, R0, c[0x0][0x214], PT")
"""R2 lies so many bytes further in each lane; P0 holds in so many lanes."""


def entered(*lines: str, size: int, lanes: int = 32, warps: int = 1, ctas: int = 1) -> np.ndarray:
    """The table of these lines."""
    flow, launch = flow_of(*APART, *lines, "EXIT"), launch_of(ctas, warps=warps)
    constants = words({0x210: size, 0x214: lanes})
    paths = find_paths(flow, followed_blocks(flow, launch, constants))
    code = op.code_table(lower_code(flow.instructions, 90, SM)[0])
    return with_lane_addresses(code, launch, paths, constants, SM)[len(APART) :]


def test_a_load_takes_the_tags_of_the_lines_that_it_touches() -> None:
    """A column of a tile would be as cheap as a row, and half sectors would come alone."""
    for size, tags, lines in ((16, 4, 4), (64, 16, 8)):
        code = entered("LDG.E.128 R4, desc[UR4][R2.64]", size=size)
        assert (code["tag_lines"][0], code["smem_lines"][0]) == (tags, lines)


def test_l1_has_what_the_warp_has_loaded() -> None:
    """Eight loads of single elements would fetch the same sectors eight times: row softmax 17 % too slow."""
    elements = [f"LDG.E.U16 R{4 + at}, desc[UR4][R2.64+{2 * at:#x}]" for at in range(8)]
    code = entered(*elements, "LDG.E.U16 R12, desc[UR4][R2.64+0x200]", size=16)
    assert code["kind"][:9].tolist() == [op.LOAD, *[op.REUSED_LOAD] * 7, op.LOAD]
    assert code["smem_lines"][:9].tolist() == [4.0] * 9


@pytest.mark.parametrize(("lanes", "lines"), [(32, 4.0), (24, 3.0), (0, 0.0)])
def test_lanes_without_an_element_store_nothing(lanes: int, lines: float) -> None:
    """Rows of 3000 in a block of 4096 would take the stores of 4096."""
    code = entered("@P0 STG.E.U16 desc[UR4][R2.64], R4", size=16, lanes=lanes)
    assert code["smem_lines"][0] == pytest.approx(lines * 1.22)


def test_whole_sectors_leave_faster_than_parts() -> None:
    """16 sectors in parts take 25.6 to 28.4 cycles on the link to L2, whole ones 25.0."""
    whole = entered("STG.E.128 desc[UR4][R2.64], R4", size=16)
    parts = entered("STG.E.64 desc[UR4][R2.64], R4", size=32)
    assert (whole["smem_lines"][0], parts["smem_lines"][0]) == (4.0, pytest.approx(8.0 * (1 + 0.22 * 6 / 7)))


@pytest.mark.parametrize(("size", "places"), [(4, 32), (0, 1)])
def test_constants_at_places_that_differ_are_loaded_one_after_the_other(size: int, places: int) -> None:
    """A load whose lanes share a place is served at once, and takes no kind of its own; what it gives stays known."""
    code = entered("LDC R4, c[0x3][R2]", size=size)
    once = entered("LDC R4, c[0x3][0x10]", size=size)[0]
    assert code["kind"][0] == (op.CONSTANT if places > 1 else op.PLAIN) and once["kind"] == op.PLAIN
    assert code["interval_cycles"][0] == places * once["interval_cycles"]
    # a place takes the port while its word is on its way
    assert code["latency_cycles"][0] == once["latency_cycles"] - (once["interval_cycles"] if places > 1 else 0.0)


def test_what_a_constant_at_a_place_in_a_register_gives_is_known() -> None:
    """Lines of loads that go by it would be those of the opcode."""
    code = entered("LDC R4, c[0x0][R2+0x214]", "IMAD.WIDE R6, R0, R4, RZ", "LDG.E R8, desc[UR4][R6.64]", size=0)
    # R4 is 32: each lane has a sector of its own
    assert code["smem_lines"][2] == 8.0


def test_banks_that_conflict_take_shared_memory_longer() -> None:
    """A tile without a swizzle would be as cheap as one with it."""
    code = entered("STS [R2], R4", size=128)
    assert (code["smem_lines"][0], code["interval_cycles"][0], code["smem_passes"][0]) == (32.0, 32.0, 32.0)


def test_a_copy_that_never_runs_is_none() -> None:
    """flash1 with one tile of queries would wait for copies of a second, which it does not make."""
    line = "LDGSTS.E.BYPASS.128 [R2], desc[UR4][R2.64], P0"
    code = entered(line, size=16, lanes=0)
    assert code["kind"][0] == op.PLAIN
    code = entered(line, size=16, lanes=16)
    assert (code["kind"][0], code["smem_lines"][0], code["tag_lines"][0]) == (op.COPY, 2.0, 2.0)
    code = entered(line, size=128)
    assert (code["smem_lines"][0], code["tag_lines"][0]) == (32.0, 32.0)


def test_a_bulk_copy_that_nobody_makes_is_not_announced() -> None:
    """Waits would be for copies announced an iteration earlier: flash2_tma, causal, 37 % too fast, now 1 % too slow."""
    lines = (
        "UISETP.LT.AND UP0, UPT, URZ, 0x1, UPT",
        "@P0 SYNCS.ARRIVE.TRANS64 RZ, [UR4+0x100], R1",
        "@!UP0 UTMALDG.3D [UR8], [UR6]",
        "@UP0 UTMALDG.3D [UR8], [UR6]",
    )
    code = entered(*lines, size=16, lanes=0)
    assert code["kind"][1:4].tolist() == [op.PLAIN, op.PLAIN, op.BULK_COPY]
    code = entered(*lines, size=16, lanes=1)
    assert code["kind"][1] == op.EXPECT


def copying(guard: str, lanes: int = 32) -> tuple[int, float, float]:
    """Kind, lines and tags of a copy in a loop over R5, under P0, or what `guard` makes of it."""
    code = entered(
        "IMAD.MOV R5, RZ, RZ, RZ",
        guard,
        "LDGSTS.E.BYPASS.128 [R2], desc[UR4][R2.64], P0",
        "IADD3 R5, R5, 0x1, RZ",
        "ISETP.LT.AND P1, PT, R5, 0x4, PT",
        "@P1 BRA 0x40",
        size=16,
        lanes=lanes,
    )
    return code["kind"][2], code["smem_lines"][2], code["tag_lines"][2]


def test_copies_that_run_ahead_in_a_loop_are_whole() -> None:
    """A CTA with few key tiles has nothing to copy ahead in its first iteration, others have."""
    assert copying("NOP", lanes=16) == (op.COPY, 4.0, 4.0)
    assert copying("ISETP.GT.AND P0, PT, R5, RZ, PT") == (op.COPY, 4.0, 4.0)


def test_copies_that_two_iterations_do_not_make_are_none() -> None:
    """flash1 with one tile of queries would wait 400 cycles for a second each time: 15 to 30 % too slow."""
    assert copying("NOP", lanes=0)[0] == op.PLAIN


def test_a_copy_from_an_address_that_is_not_known_is_made() -> None:
    """Pages of a cache, whose numbers are loaded, would never be copied."""
    code = entered(
        "IMAD.MOV R5, RZ, RZ, RZ",
        "ISETP.GT.AND P0, PT, R5, RZ, PT",
        "LDGSTS.E.BYPASS.128 [R2], desc[UR4][R2.64], P0",
        "LDG.E.64 R2, desc[UR4][R2.64]",
        "IADD3 R5, R5, 0x1, RZ",
        "ISETP.LT.AND P1, PT, R5, 0x4, PT",
        "@P1 BRA 0x40",
        size=16,
    )
    assert code["kind"][2] == op.COPY


def test_a_load_that_must_see_other_sms_is_not_taken_for_what_the_warp_has() -> None:
    """Counters in device memory would seem to be read at once."""
    for strong, kind in (
        ("", op.REUSED_LOAD),
        (".STRONG.SM", op.REUSED_LOAD),
        (".STRONG.GPU", op.LOAD),
        (".STRONG.SYS", op.LOAD),
    ):
        line = f"LDG.E{strong} R4, desc[UR4][R2.64]"
        assert entered(line, line, size=16)["kind"][1] == kind


def test_ctas_all_over_the_grid_are_looked_at() -> None:
    """The CTA at the edge of a tensor, whose lanes store nothing, would stand for all."""
    lines = ("S2R R6, SR_CTAID.X", "ISETP.LT.AND P2, PT, R6, 0x60, PT", "@P2 STG.E.128 desc[UR4][R2.64], R4")
    code = entered(*lines, size=16, ctas=128)
    assert code["smem_lines"][2] == pytest.approx(3.0, abs=0.3)


def test_tiles_at_edges_count_as_often_as_they_are_there() -> None:
    """With 30 slabs of 24 tiles, every 16th CTA but one was the last tile of its slab, whose lanes store nothing."""
    flow = flow_of(
        *APART, "S2R R6, SR_CTAID.X", "ISETP.LT.AND P2, PT, R6, 0x17, PT", "@P2 LDG.E R4, desc[UR4][R2.64]", "EXIT"
    )
    launch = replace(launch_of(24 * 30), grid=(24, 30, 1))
    constants = words({0x210: 4, 0x214: 32})
    paths = find_paths(flow, followed_blocks(flow, launch, constants))
    code = op.code_table(lower_code(flow.instructions, 90, SM)[0])
    code = with_lane_addresses(code, launch, paths, constants, SM)
    assert code["tag_lines"][5] >= 14 / 16
