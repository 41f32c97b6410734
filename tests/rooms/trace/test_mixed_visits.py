"""Visits of a loop that repeat different code: traces mix them in proportion."""

from support.listings import flow_of
from tilesight.simulator.trace.mixed_visits import LoopVisit, mixtures
from tilesight.simulator.trace.paths import find_paths

HEAVY, LIGHT, LAST = (1, 2, 3), (1, 3), (1, 4)


def visit(*iterations: tuple[int, ...]) -> LoopVisit:
    return LoopVisit(0, iterations)


def test_visits_that_repeat_the_same_have_no_mixture() -> None:
    """Their first and last iterations may differ, as what is peeled does."""
    assert mixtures((visit(HEAVY, HEAVY, LAST), visit(HEAVY, HEAVY, HEAVY, LAST))) == {}
    assert mixtures((0, visit(LIGHT, LIGHT), 5, visit(HEAVY))) == {}


def test_a_mixture_holds_iterations_in_proportion_and_spread() -> None:
    """One of four visits does more."""
    (mixture,) = mixtures((visit(HEAVY, HEAVY), *[visit(LIGHT, LIGHT)] * 3)).values()
    assert sorted(map(len, mixture)) == [2, 2, 2, 3]
    (even,) = mixtures((LoopVisit(1, ((visit(HEAVY, HEAVY),), (visit(LIGHT, LIGHT),))),)).values()
    assert set(even) == {HEAVY, LIGHT}
    assert len(even) == 2


def test_a_long_mixture_is_cut_short() -> None:
    """Two of 300 iterations are rounded away."""
    (mixture,) = mixtures((visit(HEAVY, HEAVY), visit(*[LIGHT] * 298))).values()
    assert mixture == (LIGHT,) * 16


def test_a_trace_runs_code_of_all_visits_as_often_as_the_cta_does() -> None:
    """The first of two visits runs an instruction more in each iteration: half of all do."""
    # Block 1: header of the inner loop; 2: what the first visit alone runs; 3: back to 1; 4: back to 0.
    flow = flow_of("NOP", "@P0 BRA 0x30", "FFMA R0, R1, R2, R3", "@P1 BRA 0x10", "@P2 BRA 0x0", "EXIT")
    assert [block.first for block in flow.blocks] == [0, 1, 2, 3, 4, 5]
    run = (0, *(1, 2, 3) * 8, 4, 0, *(1, 3) * 8, 4, 5)
    paths = find_paths(flow, [run])
    inner = next(number for number, region in enumerate(paths.regions) if region.leaf)
    assert paths.regions[inner].period == 2
    assert paths.regions[inner].whole(5) == 6
    for trips in (4, 8, 12):
        stretches, _, counts = paths.traces({inner: trips})
        heavy = sum(first <= 2 < stop for first, stop, _ in stretches.tolist())
        assert heavy == counts[inner] // 2
