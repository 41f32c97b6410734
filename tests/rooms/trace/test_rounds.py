"""Loops inside a loop whose rounds differ: their order, their rounds, and trip counts that keep all iterations."""

from types import SimpleNamespace

import numpy as np
import pytest
from support.made_code import made_instruction
from tilesight.simulator.sass.decode import Instruction
from tilesight.simulator.sass.flow import find_flow
from tilesight.simulator.trace.paths import OUTSIDE, CtaPaths, find_paths
from tilesight.simulator.trace.positions import Position, positions_of
from tilesight.simulator.trace.touch.rounds import Rounds, rounds_of, trips_of


def branch(address: int, opcode: str, target: int | None = None, predicate: str = "") -> Instruction:
    return made_instruction(address, opcode, target=target, predicate=predicate)


FLOW = find_flow(
    [
        branch(0, "MOV"),
        branch(16, "BRA", 48, "P0"),
        branch(32, "BRA", 32, "P1"),
        branch(48, "MOV"),
        branch(64, "BRA", 64, "P2"),
        branch(80, "BRA", 16, "P3"),
        branch(96, "EXIT"),
    ]
)
"""Blocks 0: begin, 1: header of a loop over tiles, 2: over keys without a mask, 3: between, 4: over keys with one,
5: back to 1, 6: end."""


def tiles(*unmasked: int) -> list[int]:
    """A CTA with so many iterations of the first inner loop for each tile, and two of the second."""
    return [0, *(block for trips in unmasked for block in (1, *[2] * trips, 3, 4, 4, 5)), 6]


def run_of(*unmasked: int) -> SimpleNamespace:
    paths = find_paths(FLOW, [tiles(*unmasked)])
    return SimpleNamespace(paths=paths, positions=tuple(positions_of(paths, 0)))


def headers(paths: CtaPaths) -> list[int]:
    """Header of the loop of each region."""
    loops = {region: loop for loop, region in paths.region_of[0].items()}
    return [FLOW.loops[loops[number]].header for number in range(len(paths.regions))]


@pytest.mark.parametrize("unmasked", [(0, 4, 8), (4, 0, 8), (4, 8, 0)])
def test_a_loop_that_some_rounds_skip_keeps_its_place(unmasked: tuple[int, ...]) -> None:
    """In front of the next one: else copies ahead of one loop are taken for those of the other."""
    run = run_of(*unmasked)
    assert headers(run.paths) == [1, 2, 4]
    assert [region.parent for region in run.paths.regions] == [OUTSIDE, 0, 0]
    between = [position for position, block in zip(run.positions, tiles(*unmasked), strict=True) if block == 3]
    assert between == [Position(region=0, piece=1, iteration=(number,)) for number in range(len(unmasked))]


def test_rounds_are_those_that_are_run() -> None:
    """All of them where a CTA skips some here and there."""
    assert rounds_of(run_of(0, 4, 8)) == {1: Rounds(3, frozenset({0})), 2: Rounds(3, frozenset())}
    assert rounds_of(run_of(1, 0, 1, 0, 1, 0, 1, 0))[1] == Rounds(8, frozenset())


@pytest.mark.parametrize(
    ("skipped", "count", "rounds"),
    [({0}, 3, (1, 2)), ({0}, 2, (1,)), ({2}, 3, (0, 1)), ({2}, 5, (0, 1, 2, 3)), (set(), 2, (0, 1))],
)
def test_what_is_skipped_at_the_end_is_there_in_every_cta(
    skipped: set[int], count: int, rounds: tuple[int, ...]
) -> None:
    """Of a CTA of more rounds or fewer than the one that was followed."""
    assert Rounds(3, frozenset(skipped)).of(count) == rounds


def test_all_iterations_are_run() -> None:
    """Of every CTA, in rounds of two lengths, whatever those of its code were."""
    ctas = [(0, 4, 8), (0, 3, 8), (0, 1, 1), (0, 7)]
    counts = np.array([np.bincount(tiles(*unmasked), minlength=7) for unmasked in ctas])
    trips = trips_of(FLOW, run_of(*ctas[0]), counts)[1]
    rounds = np.array([len(unmasked) - 1 for unmasked in ctas])
    assert (trips.per_round * rounds - trips.shorter).tolist() == [sum(unmasked) for unmasked in ctas]
    assert trips.per_round.tolist() == [6, 6, 1, 7] and (trips.shorter < rounds).all()


def test_a_loop_that_runs_once_in_a_round_is_the_same_loop() -> None:
    """Its accesses have as many counters there as in all other rounds."""
    run = run_of(4, 1, 8)
    inner = [position for position, block in zip(run.positions, tiles(4, 1, 8), strict=True) if block == 2]
    assert {(position.region, len(position.iteration)) for position in inner} == {(1, 2)}
    assert run.paths.regions[1].count == 13
