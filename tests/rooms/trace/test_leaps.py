"""Leaps change nothing but how long it takes: rings, wraps to the next tile, loops of other lengths in other CTAs."""

from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rooms.trace.test_cta_run import as_lists
from rooms.trace.test_representative_ctas import ADDRESS, COLUMN, GRID, subject_of
from tilesight.simulator.emulator.leap import leaper
from tilesight.simulator.emulator.leap.induction_variables import courses_of
from tilesight.simulator.emulator.leap.stack import Stack
from tilesight.simulator.emulator.thread_values import word
from tilesight.simulator.emulator.tma.boxes import Boxes
from tilesight.simulator.trace.cta.address_slice import Tracer, find_slice
from tilesight.simulator.trace.cta.bases import even_stretches, find_bases
from tilesight.simulator.trace.cta.block_counts import count_blocks
from tilesight.simulator.trace.cta.cta_run import follow_cta, follow_ctas
from tilesight.simulator.trace.cta.group import CtaGroup, Shape, walk_group
from tilesight.simulator.trace.cta.path_replay import SHORTEST, RecordAt
from tilesight.simulator.trace.cta.traced_kernel import TracedKernel
from tilesight.simulator.trace.cta.unknown_values import UnknownValues
from tilesight.simulator.trace.positions import Iteration

CTAS = [0, 3, 9]


def tiles(trips: int, stages: int, depth: int) -> TracedKernel:
    """A loop over `depth` pieces of one tile after another: a ring of stages, and a store where a tile ends.

    Args:
        trips: of the loop in the first column of CTAs, one more in each of the next; stages: of the ring.
    """
    return subject_of(
        *COLUMN,
        *ADDRESS,  # to 0x50
        "MOV R9, RZ",
        "MOV R10, RZ",
        "MOV R11, RZ",
        f"IADD3 R14, R1, {trips:#x}, RZ",
        "IMAD.WIDE R12, R10, 0x80, R6",  # at 0xa0, the begin of the loop
        "LDG.E R8, [R12.64]",
        f"ISETP.EQ.AND P2, PT, R11, {stages - 1:#x}, PT",
        "IADD3 R11, R11, 0x1, RZ",
        "SEL R11, RZ, R11, P2",
        "IMAD.WIDE R16, R11, 0x1000, R6",
        "@P2 LDG.E R8, [R16.64]",
        "IADD3 R10, R10, 0x1, RZ",
        f"ISETP.NE.AND P3, PT, R10, {depth:#x}, PT",
        "@P3 BRA 0x160",
        "STG.E [R12.64], R8",
        "MOV R10, RZ",
        "IADD3 R9, R9, 0x1, RZ",  # at 0x160
        "ISETP.LT.AND P1, PT, R9, R14, PT",
        "@P1 BRA 0xa0",
    )


def tracer_of(subject: TracedKernel) -> Tracer:
    """Follows a launch."""
    return Tracer(subject, find_slice(subject), UnknownValues(subject))


def recorded(tracer: Tracer, group: CtaGroup, even: Mapping[int, np.ndarray]) -> dict[object, tuple[object, object]]:
    """What a walk records: place and iteration -> addresses and active threads of all CTAs."""
    accesses: dict[object, tuple[object, object]] = {}

    def recorder(shape: Shape) -> RecordAt:
        def record(place: int, at: Iteration, addresses: np.ndarray, active: np.ndarray, _: Boxes | None) -> None:
            taking = np.broadcast_to(active, shape)
            accesses[place, at] = np.where(taking, addresses, 0).tolist(), taking.tolist()

        return record

    walk_group(tracer, group, recorder, all_threads=False, in_full=frozenset({0}), even=even)
    return accesses


@pytest.mark.parametrize(("depth", "unlike"), [(50, 0), (50, 20), (17, 0), (200, 60)])
def test_few_iterations_are_executed_of_what_goes_on_evenly(depth: int, unlike: int) -> None:
    """From one tile to the next, in all CTAs, of which some run fewer iterations; it is what a whole walk finds."""
    subject, trips = tiles(200, 1, depth), 200
    tracer = tracer_of(subject)
    members = np.arange(0, GRID[0] * GRID[1], GRID[0])
    of_each = np.where(np.arange(len(members)) % 2, trips - unlike, trips)
    group = CtaGroup(follow_cta(tracer, 0), members, {0: of_each})
    bases = find_bases(tracer, group, frozenset({0}))
    even = even_stretches(subject.flow, group.representative, bases)
    ends = {*range(depth, trips, depth), trips - unlike, trips}
    for number, length in enumerate(even[0].tolist()):
        assert length <= min(end for end in ends if end > number) - number + 1
    whole, few = (recorded(tracer, group, stretches) for stretches in ({}, even))
    assert {key: whole[key] for key in few} == few
    assert 3 * len(few) < 2 * len(whole)
    tile = [length for length in even[0].tolist() if length >= SHORTEST]
    assert max(tile) >= min(depth, trips - unlike) - 2


@settings(max_examples=6, deadline=None)
@given(st.integers(20, 90), st.integers(1, 6), st.integers(7, 40))
def test_what_is_leaped_over_is_as_if_it_were_followed(trips: int, stages: int, depth: int) -> None:
    """Blocks, accesses, addresses and iterations of some CTAs, bases and counts of all."""
    outcomes = []
    for limit in (leaper.MOST_LOOPS, 0):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(leaper, "MOST_LOOPS", limit)
            patch.setattr("tilesight.simulator.trace.cta.path_replay.FIRST_LEAP", 8 if limit else 1 << 30)
            subject = tiles(trips, stages, depth)
            tracer = tracer_of(subject)
            runs = [follow_cta(tracer, CTAS[0]), *follow_ctas(tracer, CTAS[1:])]
            members = np.arange(0, GRID[0] * GRID[1], GRID[0])
            group = CtaGroup(runs[0], members, {0: np.full(len(members), trips)})
            bases = find_bases(tracer, group, frozenset({0}))
            outcomes.append(
                (
                    [as_lists(run) for run in runs],
                    count_blocks(subject, UnknownValues(subject)).executions.tolist(),
                    {
                        place: [
                            {at: values.tolist() for at, values in table.items()} for table in (of.addresses, of.active)
                        ]
                        for place, of in bases.items()
                    },
                )
            )
    assert outcomes[0] == outcomes[1]


def test_a_loop_is_gone_through_in_few_leaps(monkeypatch: pytest.MonkeyPatch) -> None:
    """400 iterations, of a ring of three stages, with a tile after each 100."""
    leaps = []
    made = leaper.Leaper.at
    monkeypatch.setattr(leaper.Leaper, "at", lambda *args: (leaps.append(made(*args)), leaps[-1])[1])
    run = follow_cta(tracer_of(tiles(400, 3, 100)), 0)
    leaped = [leap.iterations for leap in leaps if leap]
    assert len(run.blocks[0]) > 800
    assert sum(leaped) > 340
    assert len(leaped) < 30


def test_leaps_of_a_loop_get_longer_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """1,000 iterations of a loop that nothing interrupts: of 32, 128, 512, and what is left."""
    leaps = []
    made = leaper.Leaper.at
    monkeypatch.setattr(leaper.Leaper, "at", lambda *args: (leaps.append(made(*args)), leaps[-1])[1])
    run = follow_cta(tracer_of(tiles(1000, 1, 2000)), 0)
    leaped = [leap.iterations for leap in leaps if leap]
    assert leaped[:3] == [32, 128, 512] and len(leaped) < 7
    assert run.blocks[0].count(run.blocks[0][-3]) > 900


def test_registers_go_on_evenly_or_round_and_round() -> None:
    """A counter, a stage of a ring of three, what stays; and nothing is guessed of squares."""

    def past(value: int) -> dict[str, tuple[np.ndarray, bool]]:
        return {"R0": (word(7 * value), True), "R1": (word(value % 3), True), "R2": (word(5), True)}

    courses = courses_of([past(value) for value in range(12)], ["R0", "R1", "R2"])
    assert not isinstance(courses, str)
    assert courses["R0"].ahead(5).ravel().tolist() == [77, 84, 91, 98, 105]
    assert courses["R1"].ahead(5).ravel().tolist() == [2, 0, 1, 2, 0]
    assert "R2" not in courses
    squares = [{"R3": (word(value * value), True)} for value in range(12)]
    assert courses_of(squares, ["R3"]) == "R3"


@pytest.mark.parametrize(("begun", "right"), [((True, True), 3), ((True, False), 1)])
def test_a_register_known_in_some_threads_goes_on_where_it_becomes_known_in_all(
    begun: tuple[bool, bool], right: int
) -> None:
    """What begins known by thread may end known as a whole; one that begins otherwise was guessed wrongly."""
    ones = np.ones((1, 1, 1), dtype=np.int64)
    known = np.array(begun).reshape(1, 2, 1)
    stack = Stack(iterations=3, ctas=1)
    assert stack.right({"R0": (ones, known)}, {"R0": (ones, True)}, frozenset({"R0"})) == right
