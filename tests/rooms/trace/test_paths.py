"""What repeats on the control paths of a CTA, paths with other iterations, and the steps that they belong to."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from support.made_code import coded_launch, made_instruction
from tilesight.simulator.launch.program import Launch, Loop, Step
from tilesight.simulator.sass.decode import Instruction, decode
from tilesight.simulator.sass.flow import Flow, find_flow
from tilesight.simulator.sm.match_steps import Part, few_items, find_cta, match_steps
from tilesight.simulator.trace.executions import paths as followed_blocks
from tilesight.simulator.trace.paths import OUTSIDE, CtaPaths, Region, find_paths


def branch(address: int, opcode: str, target: int | None = None, predicate: str = "") -> Instruction:
    return made_instruction(address, opcode, target=target, predicate=predicate)


NESTED = find_flow(
    [
        branch(0, "MOV"),
        branch(16, "MOV"),
        branch(32, "BRA", 32, "P0"),
        branch(48, "BRA", 16, "P1"),
        branch(64, "EXIT"),
    ]
)
"""Blocks 0: begin, 1: outer header, 2: inner loop, 3: back to 1, 4: end."""


def nested(*trips: int) -> list[int]:
    return [0, *(block for inner in trips for block in (1, *[2] * inner, 3)), 4]


def blocks_of(paths: CtaPaths, flow: Flow, trips: dict[int, int], warp: int = 0) -> Sequence[int]:
    trace, roles, _ = paths.traces(trips)
    places = [place for first, stop, _ in trace[slice(*roles[warp])] for place in range(first, stop)]
    return [number for place in places for number, block in enumerate(flow.blocks) if block.first == place]


def test_loops_that_repeat_are_regions_and_nest() -> None:
    """Iterations would be counted for another loop, or an inner loop's time for the outer one's."""
    paths = find_paths(NESTED, [nested(5, 5, 5)] * 4)
    assert paths.regions == (Region(parent=OUTSIDE, count=3, leaf=False), Region(parent=0, count=15, leaf=True))


@pytest.mark.parametrize(("outer", "inner"), [(1, 1), (2, 3), (5, 9)])
def test_a_trace_has_the_trips_that_are_asked_for(outer: int, inner: int) -> None:
    """Cycles of an iteration would come from the wrong number of them."""
    paths = find_paths(NESTED, [nested(5, 5, 5)] * 4)
    assert blocks_of(paths, NESTED, {0: outer, 1: inner}) == nested(*[inner] * outer)


DEEP = find_flow(
    [
        branch(0, "MOV"),
        branch(16, "MOV"),
        branch(32, "MOV"),
        branch(48, "BRA", 48, "P0"),
        branch(64, "BRA", 32, "P1"),
        branch(80, "BRA", 16, "P2"),
        branch(96, "EXIT"),
    ]
)
"""Blocks 0: begin, 1: header of a loop over groups, 2: over tiles, 3: over what tiles sum, 4, 5: back, 6: end."""


@pytest.mark.parametrize("tiles", [(1, 3, 1), (2, 1), (3, 2)])
def test_a_loop_inside_one_that_runs_once_at_times_lies_in_it_always(tiles: tuple[int, ...]) -> None:
    """A group of a single tile put the sum of that tile beside the loop over tiles, and the kernel was refused."""
    blocks = [0, *(block for count in tiles for block in (1, *(2, *[3] * 5, 4) * count, 5)), 6]
    paths = find_paths(DEEP, [blocks])
    parents = [region.parent for region in paths.regions]
    assert parents == [OUTSIDE, 0, 1]
    assert [region.count for region in paths.regions] == [len(tiles), sum(tiles), 5 * sum(tiles)]
    inner = {region for block, region in paths.executed(0) if block == 3}
    assert inner == {2}
    assert [block for block, _ in paths.executed(0)] == blocks


def test_a_loop_that_never_repeats_alike_is_straight_code() -> None:
    """A loop over tasks, of which each warp gets one and an end, would be taken for a loop over tiles."""
    flow = find_flow(
        [
            branch(0, "BRA", 48, "P0"),
            branch(16, "MOV"),
            branch(32, "BRA", 0),
            branch(48, "BRA", 0, "P1"),
            branch(64, "EXIT"),
        ]
    )
    path = [0, 1, 0, 2, 3]
    assert len(flow.loops) == 1
    paths = find_paths(flow, [path])
    assert paths.regions == ()
    assert list(paths.executed(0)) == [(block, OUTSIDE) for block in path]


def test_warps_with_loops_of_their_own_share_a_region() -> None:
    """A producer's trips would be cut, and its consumers' would not."""
    flow = find_flow(
        [
            branch(0, "BRA", 48, "P0"),
            branch(16, "BRA", 16, "P1"),
            branch(32, "EXIT"),
            branch(48, "BRA", 48, "P1"),
            branch(64, "EXIT"),
        ]
    )
    paths = find_paths(flow, [[0, *[1] * 8, 2], [0, *[3] * 8, 4]])
    assert paths.regions == (Region(parent=OUTSIDE, count=8, leaf=True),)
    assert [len(blocks_of(paths, flow, {0: 3}, warp)) for warp in (0, 1)] == [5, 5]


def test_warps_whose_loops_differ_are_refused_in_one_line() -> None:
    """Some warps would wait for ever for others whose iterations were left out; few blocks are straight code."""
    short = find_paths(NESTED, [nested(5, 5, 5), [0, 1, 3, 4]])
    assert short.unrolled and not short.regions and list(short.warps[0]) == list(nested(5, 5, 5))
    with pytest.raises(ValueError, match="run loops of different nesting"):
        find_paths(NESTED, [nested(500, 500, 5000), [0, 1, 3, 4]])


def test_the_control_path_of_a_kernel_is_what_its_warps_run() -> None:
    """Blocks would be lost between the path of a warp and what is simulated."""
    launch = coded_launch()
    assert launch.resources.code
    flow = find_flow(decode(launch.resources.code.sass))
    blocks = followed_blocks(flow, launch, launch.resources.code.constants)
    paths = find_paths(flow, blocks)
    assert [[block for block, _ in paths.executed(warp)] for warp in range(4)] == [list(warp) for warp in blocks]
    assert [region.count for region in paths.regions] == [16]


def launch_with(*body: Step | Loop) -> Launch:
    launch = coded_launch()
    return replace(launch, program=replace(launch.program, body=body))


def loop(name: str, trips: int) -> Loop:
    return Loop(counter=name, trips=trips, body=(Step(name=name),))


WHOLE = (Step(name="begin"), loop("inner", 40), loop("masked", 3), Step(name="end"))
BEGIN, LOOP, REST = Part(OUTSIDE), Part(0), Part(OUTSIDE, after=True)


def region(count: int, parent: int = OUTSIDE, leaf: bool = True) -> Region:
    return Region(parent=parent, count=count, leaf=leaf)


@pytest.mark.parametrize(
    ("counts", "steps", "times", "remainders"),
    [
        ((40, 3), (("inner",), ("masked",)), (1.0, 1.0), (0.0, 0.0)),
        ((20, 3), (("inner",), ("masked",)), (0.5, 1.0), (0.0, 0.0)),
        ((39, 3), (("inner",), ("masked",)), (1.0, 1.0), (-1.0, 0.0)),
        ((36, 3), (("inner",), ("masked",)), (1.0, 1.0), (-4.0, 0.0)),
        ((35, 3), (("inner",), ("masked",)), (35 / 40, 1.0), (0.0, 0.0)),
        ((18, 3), (("inner",), ("masked",)), (0.5, 1.0), (-2.0, 0.0)),
        ((40,), (("inner",),), (1.0,), (0.0,)),
        ((43,), (("inner", "masked"),), (1.0,), (0.0,)),
    ],
    ids=[
        "alike",
        "unrolled",
        "peeled",
        "four peeled",
        "five missing",
        "unrolled and peeled",
        "masked is straight code",
        "one loop for both",
    ],
)
def test_parts_belong_to_the_steps_that_run_as_often(
    counts: tuple[int, ...], steps: tuple[tuple[str, ...], ...], times: tuple[float, ...], remainders: tuple[float, ...]
) -> None:
    """A loop of the code would be attributed to steps that have nothing to do with it."""
    launch = launch_with(*WHOLE)
    regions = tuple(region(count) for count in counts)
    attributions = match_steps(launch, regions, {"begin": 1, "inner": 40, "masked": 3, "end": 1})
    assert (attributions[BEGIN].steps, attributions[REST].steps) == (("begin",), ("end",))
    loops = [attributions[Part(number)] for number in range(len(counts))]
    assert tuple(loop.steps for loop in loops) == steps
    assert tuple(loop.times for loop in loops) == times
    assert tuple(loop.remainder for loop in loops) == remainders


def test_loops_that_run_as_often_as_each_other_have_steps_of_their_own() -> None:
    """One step would have both loops wherever the CTA runs as many tiles with a mask as without."""
    regions = (region(4, leaf=False), region(32, parent=0), region(32, parent=0))
    attributions = match_steps(launch_with(*WHOLE), regions, {"begin": 4, "inner": 32, "masked": 32, "end": 4})
    assert [attributions[Part(number)].steps for number in range(3)] == [("begin",), ("inner",), ("masked",)]


def test_code_after_a_loop_without_a_step_of_its_own_leaves_the_loop_to_its_step() -> None:
    """A whole loop would be attributed at once, to the step before it."""
    attributions = match_steps(launch_with(*WHOLE[:2]), (region(40),), {"begin": 1, "inner": 40})
    assert [attributions[part].steps for part in (BEGIN, LOOP, REST)] == [("begin",), ("inner",), ("begin",)]


def test_the_cta_that_is_followed_runs_every_kind_of_step() -> None:
    """A step that the first CTA does not run would cost nothing anywhere."""
    launch = coded_launch()
    table = launch.program.items
    program = replace(
        launch.program,
        period_items=64,
        variables=(*launch.program.variables, "often"),
        items=lambda indices: np.column_stack((table(indices), indices % 40)),
        body=(Step(name="begin"), Loop(counter="k", trips="often", body=(Step(name="inner"),))),
    )
    cta, executed = find_cta(replace(launch, program=program))
    assert (cta, executed) == (24, {"begin": 1, "inner": 24})


def test_a_ctas_items_are_followed_as_far_as_they_tell_something() -> None:
    """A persistent grid's CTA would be followed through hundreds of items that are all alike."""
    launch = replace(coded_launch(), grid=(2, 1, 1))
    followed, constants = few_items(launch, {0xC: 2, 0x0: 128}, 90)
    assert (followed.grid, constants) == ((16, 1, 1), {0xC: 16, 0x0: 128})
    launch = coded_launch()
    assert few_items(launch, {}, 90)[0] is launch


ROLES = find_flow(
    [
        branch(0, "BRA", 96, "P0"),
        branch(16, "MOV"),
        branch(32, "SYNCS"),
        branch(48, "BRA", 32, "P1"),
        branch(64, "BRA", 16, "P2"),
        branch(80, "EXIT"),
        branch(96, "MOV"),
        branch(112, "SYNCS"),
        branch(128, "BRA", 112, "P1"),
        branch(144, "BRA", 96, "P2"),
        branch(160, "MOV"),
        branch(176, "BRA", 160, "P3"),
        branch(192, "EXIT"),
    ]
)
"""One role loops over all tiles, another over the first of them, with a wait in each, and then over the others."""


@pytest.mark.parametrize("masked", [1, 2, 3])
def test_loops_that_follow_each_other_are_the_one_of_another_role(masked: int) -> None:
    """A producer's loop over all tiles would have more iterations than that of consumers, who wait for ever."""
    at = {ROLES.blocks[number].first: number for number in range(len(ROLES.blocks))}
    all_of = [at[0], *[at[1], at[2], at[4]] * 12, at[5]]
    first, other = [at[6], at[7], at[9]], at[10]
    paths = find_paths(ROLES, [all_of, [at[0], *first * masked, *[other] * (12 - masked), at[12]]])
    assert [(region.parent, region.count, region.leaf) for region in paths.regions] == [(OUTSIDE, 12, True)]
    loop_of = {loop.header: number for number, loop in enumerate(ROLES.loops)}
    assert paths.joined == {loop_of[at[6]]: loop_of[other]} and not paths.unrolled
    for trips in (12, 24):
        made = [blocks_of(paths, ROLES, {0: trips}, warp) for warp in (0, 1)]
        assert made[0].count(at[1]) == made[1].count(at[6]) + made[1].count(other) == trips
