"""Checks: branches one side of which traps lead past the trap, and what they compare is not looked at."""

from support.listings import flow_of
from tilesight.simulator.sass.traps import checks_of, followed_edges, traps_of
from tilesight.simulator.trace.control_slice import control_slice

FLAG_IN_SHARED_MEMORY = flow_of(
    "LDS.U8 R2, [UR4]",
    "ISETP.NE.AND P0, PT, R2, RZ, PT",
    "@P0 BRA 0x50",
    "ISETP.NE.AND P1, PT, R0, RZ, PT",
    "EXIT",
    "MOV R3, 0x30",
    "CALL.REL.NOINC 0x70",
    "BPT.TRAP 0x1",
    "RET.REL.NODEC R3 0x0",
)


def test_a_branch_to_a_function_that_traps_is_a_check_that_does_not_jump() -> None:
    """As ptxas has a CTA look whether tensor memory is free, on sm_100."""
    assert traps_of(FLAG_IN_SHARED_MEMORY) == {2, 3}
    assert checks_of(FLAG_IN_SHARED_MEMORY) == {0: False}
    assert followed_edges(FLAG_IN_SHARED_MEMORY)[0] == (1,)


def test_what_a_check_compares_decides_nothing() -> None:
    """Else all threads would be followed through everything that they leave in shared memory."""
    flow = FLAG_IN_SHARED_MEMORY
    opcodes = {flow.instructions[place].opcode for block in control_slice(flow)[:2] for place in block}
    assert opcodes == {"BRA", "EXIT"}


def test_a_jump_over_a_trap_is_a_check_that_jumps() -> None:
    """An assertion, the other way round."""
    flow = flow_of("ISETP.GE.AND P0, PT, R0, RZ, PT", "@P0 BRA 0x30", "BPT.TRAP 0x1", "EXIT")
    assert checks_of(flow) == {0: True}


def test_a_warp_that_may_end_before_a_trap_does_not_trap_on_every_path() -> None:
    """Threads that pass the check end; the branch that leads there is none."""
    flow = flow_of("@P1 BRA 0x20", "EXIT", "@P0 EXIT", "BPT.TRAP 0x1", "EXIT")
    assert checks_of(flow) == {2: True}


def test_a_branch_between_two_traps_is_no_check() -> None:
    """There is no side to go on to."""
    flow = flow_of("@P0 BRA 0x20", "BPT.TRAP 0x1", "BPT.TRAP 0x1", "EXIT")
    assert checks_of(flow) == {}
