"""Descriptors that a kernel writes itself: made in shared memory, then taken to global memory by the lanes of a warp.

    LDS R5, [R4+UR8]                              each lane a word of the descriptor in shared memory
    ATOMG.E.EXCH.STRONG.GPU PT, RZ, [R2], R5      to the launch's workspace

This is what ptxas makes of `tensormap.cp_fenceproxy`. The first lane stands at the begin of both.
"""

from collections.abc import Mapping

from ...sass.decode import Instruction
from ...sass.flow import Flow
from ...sass.operands import Register
from ...sass.registers import written
from ..read_operands import address_of
from ..semantics import compile_instruction
from ..thread_values import TRUE, Array, Value
from ..threads import Step, Threads
from .descriptor import WORDS


def descriptor_writes(flow: Flow) -> dict[int, int]:
    """Place of what takes a descriptor to global memory -> place of the load from shared memory that it comes from."""
    loads: dict[int, int] = {}
    if not any(instruction.family == "ATOMG" for instruction in flow.instructions):
        return loads
    for block in flow.blocks:
        loaded: dict[str, int] = {}
        for place in range(block.first, block.stop):
            instruction = flow.instructions[place]
            if instruction.family == "ATOMG" and "EXCH" in instruction.modifiers and _data(instruction) in loaded:
                loads[place] = loaded[_data(instruction)]
            for name in written(instruction):
                loaded.pop(name, None)
                if instruction.family == "LDS":
                    loaded[name] = place
    return loads


def steps_of(flow: Flow, writes: Mapping[int, int]) -> dict[int, Step]:
    """What to do at the loads of `descriptor_writes`: load, and keep the whole descriptor."""
    return {place: _keeping(flow.instructions[place]) for place in writes.values()}


def _keeping(instruction: Instruction) -> Step:
    load, address, name = (
        compile_instruction(instruction),
        address_of(instruction.operands[-1]),
        written(instruction)[0],
    )

    def step(threads: Threads, mask: Array) -> None:
        load(threads, mask)
        places, known = address(threads)
        threads.images.pop(name, None)
        if known is True:
            threads.images[name] = threads.shared.load((places[:, :1, :1], True), 4 * WORDS, TRUE[0])

    return step


def _data(instruction: Instruction) -> str:
    operand = instruction.operands[-1]
    return operand.name if isinstance(operand, Register) else ""


def take(instruction: Instruction, threads: Threads, where: Value) -> None:
    """A descriptor reaches global memory. Args: instruction: that takes it there; where: to which addresses."""
    words = threads.images.get(_data(instruction))
    address, known = where
    if words is not None and known is True:
        first = address[:, :1, :1]
        threads.descriptors[int(first.flat[0])] = first, words
