"""Loops that follow each other where another role has one over all: a few iterations of each tell where CTAs touch."""

import numpy as np
import pytest
from rooms.trace.test_representative_ctas import ADDRESS, COLUMN, GRID, subject_of
from support.listings import flow_of
from tilesight.simulator.emulator.leap.live_registers import live_at
from tilesight.simulator.trace.cta.address_slice import Tracer, find_slice
from tilesight.simulator.trace.cta.bases import find_bases
from tilesight.simulator.trace.cta.block_counts import count_blocks
from tilesight.simulator.trace.cta.cta_run import follow_cta
from tilesight.simulator.trace.cta.group import CtaGroup
from tilesight.simulator.trace.cta.traced_kernel import TracedKernel
from tilesight.simulator.trace.cta.unknown_values import UnknownValues
from tilesight.simulator.trace.touch.rounds import shared_out, trips_of

FEWEST, FIRST = 8, 3
"""Iterations of the loop over all in the first column of CTAs, one more in each of the next; of the first of two."""
ALONE, BEFORE, BEHIND = 0xC0, 0x120, 0x180
"""Where the loads of the three loops stand, in bytes."""


def roles(unlike: bool) -> TracedKernel:
    """A warp goes over all tiles, the other over the first ones, and then over the others. Args: unlike: as `group`."""
    step = ("IADD3 R6, R6, 0x100, RZ", "IADD3 R9, R9, 0x1, RZ")
    return subject_of(
        *COLUMN,
        *ADDRESS,  # to 0x50
        f"IADD3 R14, R1, {FEWEST:#x}, RZ",
        "LOP3.LUT R15, R1, 0x1, RZ, 0xc0, !PT" if unlike else "MOV R15, RZ",
        f"IADD3 R15, R15, {FIRST:#x}, RZ",
        "MOV R9, RZ",
        "ISETP.GE.AND P0, PT, R0, 0x20, PT",
        f"@P0 BRA {BEFORE:#x}",
        *("LDG.E R8, [R6.64]", *step, "ISETP.LT.AND P1, PT, R9, R14, PT", f"@P1 BRA {ALONE:#x}", "EXIT"),
        *("LDG.E R8, [R6.64]", *step, "ISETP.LT.AND P1, PT, R9, R15, PT", f"@P1 BRA {BEFORE:#x}"),
        "IADD3 R6, R6, 0x40, RZ",
        *("LDG.E R8, [R6.64]", *step, "ISETP.LT.AND P1, PT, R9, R14, PT", f"@P1 BRA {BEHIND:#x}"),
    )


@pytest.mark.parametrize("in_full", [frozenset[int](), frozenset({0})])
@pytest.mark.parametrize("unlike", [False, True])
def test_what_loops_in_turn_touch_is_what_each_cta_does(unlike: bool, in_full: frozenset[int]) -> None:
    """CTAs of 8 to 23 iterations, of which the first loop makes three, or in every other CTA four."""
    subject = roles(unlike)
    tracer = Tracer(subject, find_slice(subject), UnknownValues(subject))
    ctas = np.arange(GRID[0])
    runs = [follow_cta(tracer, cta) for cta in ctas.tolist()]
    counts = count_blocks(subject, UnknownValues(subject), ctas.tolist()).executions
    trips = {region: of_all.per_round for region, of_all in trips_of(subject.flow, runs[-1], counts).items()}
    assert trips[0].tolist() == [FEWEST + column for column in range(GRID[0])]
    group = CtaGroup(runs[-1], ctas, trips, shared_out(subject.flow, runs[-1], counts))
    assert group.unlike == (frozenset({0}) if unlike else frozenset())
    bases = find_bases(tracer, group, in_full)
    alone, before, behind = (at // 16 for at in (ALONE, BEFORE, BEHIND))
    few = {
        *((alone, (at,)) for at in range(2)),
        *((before if at < FIRST else behind, (at,)) for at in range(FIRST + 2)),
    }
    assert {place for place, _ in bases} == {alone, before, behind}
    for rank, run in enumerate(runs):
        made = {(access.place, run.positions[access.visit].iteration): access.anchor for access in run.accesses}
        of_cta = {
            (place, at): int(addresses[rank])
            for (place, _), of_all in bases.items()
            for at, addresses in of_all.addresses.items()
            if of_all.active[at][rank].any()
        }
        assert of_cta.items() <= made.items()
        assert len(of_cta) == len(made) if in_full or unlike else few <= of_cta.keys()


def test_coordinates_of_a_box_count_at_the_begin_of_a_loop() -> None:
    """They stand beside the register that names them: a leap took those that the loop does not write to be 0."""
    flow = flow_of("UMOV UR10, 0x7", "UTMALDG.2D [UR8], [UR6]", "@P0 BRA 0x10", "EXIT")
    places = tuple(tuple(range(block.first, block.stop)) for block in flow.blocks)
    assert {"UR6", "UR7", "UR10", "UR11"} <= live_at(flow, places)[1]
    assert "UR10" not in live_at(flow, places)[0]


def test_ctas_that_are_through_a_loop_keep_what_they_took_from_it() -> None:
    """Others go on by leaps: a register that each iteration writes first is the last one's behind the loop."""
    subject = subject_of(
        *COLUMN,
        *ADDRESS,  # to 0x50
        "LOP3.LUT R14, R1, 0x1, RZ, 0xc0, !PT",
        "IMAD R14, R14, 0x40, RZ",
        "IADD3 R14, R14, 0x40, RZ",
        "MOV R9, RZ",
        "IMAD.WIDE R12, R9, 0x80, R6",  # at 0xa0, the begin of the loop
        "LDG.E R8, [R12.64]",
        "IADD3 R9, R9, 0x1, RZ",
        "ISETP.LT.AND P1, PT, R9, R14, PT",
        "@P1 BRA 0xa0",
        "STG.E [R12.64], R8",
    )
    tracer = Tracer(subject, find_slice(subject), UnknownValues(subject))
    ctas = np.arange(GRID[0])
    group = CtaGroup(follow_cta(tracer, 1), ctas, {0: np.where(ctas % 2, 128, 64)})
    stored = find_bases(tracer, group, frozenset({0}))[0xF0 // 16, 0].addresses[()]
    assert stored.tolist() == [follow_cta(tracer, cta).accesses[-1].anchor for cta in ctas.tolist()]
