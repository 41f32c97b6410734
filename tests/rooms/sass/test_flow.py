"""Where code can go: blocks, dominators and loops."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.listings import flow_of
from tilesight.simulator.sass.graph import find_dominators, natural_loops, stands_over

GRAPHS = st.integers(1, 9).flatmap(
    lambda count: st.lists(st.lists(st.integers(0, count - 1), max_size=2, unique=True), min_size=count, max_size=count)
)


def reached(successors: list[list[int]], without: int = -1) -> set[int]:
    """Blocks that can be reached from the entry on ways that leave one out."""
    seen: set[int] = set()
    waiting = [0]
    while waiting:
        block = waiting.pop()
        if block != without and block not in seen:
            seen.add(block)
            waiting += successors[block]
    return seen


@given(GRAPHS)
def test_a_block_dominates_what_is_not_reached_without_it(successors: list[list[int]]) -> None:
    """The definition of dominance, by deleting one block at a time."""
    dominators = find_dominators(successors)
    here = reached(successors)
    assert {block for block, above in enumerate(dominators) if above >= 0} == here
    for above in here:
        cut_off = here - reached(successors, above)
        assert {block for block in here if stands_over(dominators, above, block)} == cut_off


@given(GRAPHS)
def test_a_loop_is_entered_by_its_header_alone(successors: list[list[int]]) -> None:
    """Blocks of a natural loop reach its header within it, and nothing but the header is led to from outside."""
    for header, blocks in natural_loops(successors, find_dominators(successors)).items():
        here = reached(successors)
        assert blocks <= here
        for block in here - blocks:
            assert not (set(successors[block]) & blocks) - {header}
        for block in blocks:
            inside = [[target for target in targets if target in blocks] for targets in successors]
            seen, waiting = set(), list(inside[block])
            while waiting:
                led_to = waiting.pop()
                if led_to not in seen:
                    seen.add(led_to)
                    waiting += inside[led_to]
            assert header in seen


def test_nested_loops_name_their_parents() -> None:
    """Trips of an inner loop could not be told from those of the loop around it."""
    flow = flow_of("NOP", "NOP", "NOP", "@P0 BRA 0x20", "@P1 BRA 0x10", "EXIT")
    outer, inner = flow.loops
    assert (outer.parent, outer.depth, inner.parent, inner.depth) == (-1, 0, 0, 1)
    assert inner.blocks < outer.blocks
    assert [flow.loop_of(block) for block in range(len(flow.blocks))] == [-1, 0, 1, 0, -1]
    assert stands_over(flow.dominators, 1, 3) and not stands_over(flow.dominators, 3, 1)


def test_a_jump_back_alone_is_no_loop() -> None:
    """Cold blocks that the compiler puts at the end would be taken for loops."""
    flow = flow_of("@P0 BRA 0x30", "NOP", "EXIT", "NOP", "BRA 0x10")
    assert flow.loops == ()


def test_code_behind_the_end_is_not_reached() -> None:
    """The padding after EXIT, a branch to itself, would count as an endless loop."""
    flow = flow_of("EXIT", "BRA 0x10", "NOP")
    assert flow.loops == () and flow.dominators == (0, -1, -1)


@pytest.mark.parametrize(
    ("lines", "successors"),
    [
        (["@P0 EXIT", "EXIT"], [(1,), ()]),
        (["BRA.U UP0, 0x10", "EXIT"], [(1,), ()]),
        (["BRA.U UP0, 0x20", "NOP", "EXIT"], [(2, 1), (2,), ()]),
        (["@!PT BRA 0x20", "NOP", "EXIT"], [(2, 1), (2,), ()]),
        (["CALL.REL.NOINC 0x20", "EXIT", "RET.REL.NODEC R2 0x0"], [(2,), (), (1,)]),
        (["BSSY B0, 0x20", "BSYNC B0", "EXIT"], [()]),
        (["BRX R2 -0x10", "EXIT", "EXIT"], [(1, 2), (), ()]),
        (['BRX R2 -0x10 (*"BRANCH_TARGETS 0x10,0x30"*)', "NOP", "EXIT", "NOP", "EXIT"], [(1, 2), (), ()]),
    ],
)
def test_each_kind_of_jump_leads_where_it_can(lines: list[str], successors: list[tuple[int, ...]]) -> None:
    """A way that warps take would be missing, or one that none can take be there."""
    assert [block.successors for block in flow_of(*lines).blocks] == successors


def test_a_jump_to_no_instruction_is_refused() -> None:
    """A listing that was cut off would be walked as if it ended there."""
    with pytest.raises(ValueError, match="jump at 0x0 goes to 0x100"):
        flow_of("BRA 0x100", "EXIT")
