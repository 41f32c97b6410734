"""Branches that check: one side ends in a trap, as that of an assertion does, so every thread takes the other one.

A kernel whose check fails ends with an error and has no time that anybody wants. So what a check compares is not
looked at. ptxas adds such checks of its own: on sm_100 a CTA looks up in shared memory whether tensor memory is free.
"""

from functools import lru_cache

from .flow import BRANCHES, CALLS, ENDS, FLOWS_KEPT, Flow, is_conditional

TRAP = "BPT.TRAP"


@lru_cache(maxsize=FLOWS_KEPT)
def checks_of(flow: Flow) -> dict[int, bool]:
    """Block that ends in a check -> whether all threads take the jump (or end there), or none does."""
    traps = traps_of(flow)
    checks: dict[int, bool] = {}
    for number, block in enumerate(flow.blocks):
        last = flow.instructions[block.stop - 1]
        if not is_conditional(last):
            continue
        trapping = traps.intersection(block.successors)
        jumps = last.family in BRANCHES | CALLS and len(block.successors) > 1
        if (jumps and len(trapping) == 1) or (last.family in ENDS and trapping):
            checks[number] = number + 1 in trapping
    return checks


@lru_cache(maxsize=FLOWS_KEPT)
def followed_edges(flow: Flow) -> tuple[tuple[int, ...], ...]:
    """Block -> blocks that threads go on to, the traps of checks left out."""
    checks, traps = checks_of(flow), traps_of(flow)
    return tuple(
        tuple(to for to in block.successors if to not in traps) if number in checks else block.successors
        for number, block in enumerate(flow.blocks)
    )


@lru_cache(maxsize=FLOWS_KEPT)
def traps_of(flow: Flow) -> frozenset[int]:
    """Blocks from which every path ends in a trap."""
    trapped = frozenset(
        number
        for number in range(len(flow.blocks))
        if any(instruction.opcode == TRAP for instruction in flow.code(number))
    )
    while True:
        more = {
            number
            for number, block in enumerate(flow.blocks)
            if number not in trapped and not _ends(flow, number) and trapped.issuperset(block.successors)
        }
        if not more:
            return trapped
        trapped |= more


def _ends(flow: Flow, number: int) -> bool:
    """Whether threads may end in a block. Args: number: of it."""
    return flow.code(number)[-1].family in ENDS or not flow.blocks[number].successors
