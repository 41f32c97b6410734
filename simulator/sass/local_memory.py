"""What lies in local memory: registers that the compiler has spilled, or arrays and buffers of the kernel's own.

The compiler reports the bytes of a stack frame, whatever is in it. A spilled register is stored to a fixed place from
the stack pointer R1 and loaded from there; an array is indexed, and what is passed to printf is stored alone.

Source: for `tl.sin` cuobjdump reports a frame of 32 B, in which the reduction of large arguments keeps an array of 7
words; its code loads no word from a fixed place.
"""

from ..limits import WORD_BYTES
from .flow import CALLS, flow_of
from .operands import stack_offset
from .registers import result_registers

STORE, LOAD = "STL", "LDL"


def indexes_in_a_loop(sass: str) -> bool:
    """Whether code goes through an array in local memory: a pass of a loop touches a place that it computes."""
    flow = flow_of(sass)
    return any(
        flow.loop_of(block) >= 0
        for block in range(len(flow.blocks))
        for instruction in flow.code(block)
        if instruction.family in (STORE, LOAD)
        and stack_offset(instruction.operands[0 if instruction.family == STORE else -1]) is None
    )


def spilled_bytes(sass: str, frame_bytes: int) -> int:
    """Bytes of spilled registers of a thread: of the frame those that are stored and loaded again at a fixed place.

    Args:
        sass: a kernel's listing; frame_bytes: its stack frame [B].

    Returns:
        All of the frame where it holds nothing else [B].
    """
    if not frame_bytes:
        return 0
    stored: set[int] = set()
    loaded: set[int] = set()
    holds_others = False
    for instruction in flow_of(sass).instructions:
        if instruction.family in CALLS and instruction.target is None:
            holds_others = True
        if instruction.family not in (STORE, LOAD):
            continue
        offset = stack_offset(instruction.operands[0 if instruction.family == STORE else -1])
        if offset is None:
            holds_others = True
            continue
        first = offset // WORD_BYTES
        words = range(first, first + result_registers(instruction))
        (stored if instruction.family == STORE else loaded).update(words)
    bytes_again = WORD_BYTES * len(stored & loaded)
    return bytes_again if holds_others or not bytes_again else frame_bytes
