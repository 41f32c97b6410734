"""Blocks compiled to steps: what is executed of each, cut at barriers, and where they lead.

Of a branch one side of which ends in a trap the condition is not looked at; one that is not known is an error.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..limits import WARP_THREADS
from ..refusal import CannotFollow
from ..sass.decode import Instruction
from ..sass.flow import BRANCHES, CALLS, ENDS, INDIRECT, RETURNS, Flow
from ..sass.memory_instructions import BARRIERS
from ..sass.operands import Address, Immediate, Predicate, integer_of
from ..sass.traps import checks_of
from .read_operands import number_of, predicate_of
from .semantics import compile_instruction, condition_of
from .thread_values import SHAPE, WORD_MASK, Array, Value, known_to_all, narrowed_to
from .threads import Step, Threads

Leave = Callable[[Threads, Array], list[tuple[int, Array]]]
"""Which threads go to which block."""
Unsure = Callable[[int, Threads, Array, Array], Array]
"""From a block, its threads, and whether and where the condition of its branch is known, to who takes the branch."""
ALWAYS = Predicate(file="P", number=None)
NUMBER_BITS = 4
"""Of the number of a barrier (PTX ISA, bar)."""
UNKNOWN_TARGET = (
    "jumps to a place that is read from a table (a choice among many cases, or a function that is not inlined):"
    " not modelled; try nested ifs, or tl.where"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Barrier:
    """A barrier in a block; which one it is, and how many threads it takes, may be computed.

    Args:
        place, address: of its instruction; waits: or only reports; guard: tells who comes to it;
        numbers: read its number, and where it does not take all of the CTA the number of threads.
    """

    place: int
    address: int
    waits: bool
    guard: Callable[[Threads], Value]
    numbers: tuple[Callable[[Threads], Value], ...]

    def arrivals(self, threads: Threads, mask: Array) -> tuple[Array, list[tuple[int, int, Array]]]:
        """Who passes by, and who comes to which barrier: number, warps that it takes (0: all of the CTA), and which."""
        coming = narrowed_to(mask, self.guard(threads))
        values = [read(threads) for read in self.numbers]
        if not all(known_to_all(known, coming) for _, known in values):
            raise CannotFollow("which barrier warps wait at is not known", self.address)
        number, count = values[0][0], values[1][0] if len(values) > 1 else np.zeros(SHAPE, dtype=np.int64)
        both = number + (count // WARP_THREADS << NUMBER_BITS)
        chosen = np.broadcast_to(both, np.broadcast_shapes(both.shape, coming.shape))
        kinds = np.unique(both if both.size == 1 else chosen[np.broadcast_to(coming, chosen.shape)]).tolist()
        parts = [(kind, coming if len(kinds) == 1 else coming & (both == kind)) for kind in kinds]
        return mask & ~coming, [(kind & (1 << NUMBER_BITS) - 1, kind >> NUMBER_BITS, who) for kind, who in parts]


CompiledBlocks = list[list[tuple[list[Step], Leave | Barrier]]]
"""Block -> its parts: steps, and then a barrier or the jump out of the block."""


def compile_blocks(
    flow: Flow,
    wanted: Sequence[Sequence[int]],
    replaced: Mapping[int, Step] | None = None,
    unsure: Unsure | None = None,
) -> CompiledBlocks:
    """For each block its parts: steps, and then a barrier or the jump out of the block.

    Args:
        wanted: block -> places of the instructions to run.
        replaced: place -> what to do there in the place of what its instruction does.
        unsure: what settles branches whose conditions are not known; an error where None.
    """
    checks = checks_of(flow)
    replacements = replaced or {}
    compiled: CompiledBlocks = []
    for number, places in enumerate(wanted):
        block = flow.blocks[number]
        parts: list[tuple[list[Step], Leave | Barrier]] = []
        steps: list[Step] = []
        for place in places:
            instruction = flow.instructions[place]
            if place in replacements:
                steps.append(replacements[place])
            elif instruction.family in BARRIERS:
                parts.append((steps, _barrier(place, instruction)))
                steps = []
            elif place < block.stop - 1 or not _leaves(instruction):
                steps.append(compile_instruction(instruction))
        parts.append((steps, leave_of(flow, number, checks, unsure)))
        compiled.append(parts)
    return compiled


def _leaves(instruction: Instruction) -> bool:
    return instruction.family in BRANCHES | CALLS | ENDS | INDIRECT | RETURNS


def _barrier(place: int, instruction: Instruction) -> Barrier:
    operands = [operand for operand in instruction.operands if not isinstance(operand, Predicate)]
    return Barrier(
        place=place,
        address=instruction.address,
        waits="ARV" not in instruction.modifiers,
        guard=predicate_of(instruction.guard or ALWAYS),
        numbers=tuple(map(number_of, operands or [Immediate(0)])),
    )


def onward(block: int | None) -> Leave:
    """All threads go on to a block; None: they end."""
    return lambda threads, mask: [] if block is None else [(block, mask)]


def leave_of(flow: Flow, number: int, checks: Mapping[int, bool], unsure: Unsure | None) -> Leave:
    """How threads leave a block. Args: number: of the block; checks: of `checks_of`; unsure: of `compile_blocks`."""
    instruction = flow.code(number)[-1]
    following = number + 1
    if not _leaves(instruction):
        return lambda threads, mask: [(following, mask)]
    targets = _targets(flow, number)
    if number in checks:
        return targets if checks[number] else lambda threads, mask: [(following, mask)]
    condition = condition_of(instruction)

    def leave(threads: Threads, mask: Array) -> list[tuple[int, Array]]:
        holds, known = condition(threads)
        if known is not True and not np.all(np.where(mask, known, True)):
            if not unsure:
                raise CannotFollow(
                    f"{instruction.opcode} at {instruction.address:#x} depends on data or on what is not modelled: "
                    "must follow from the launch",
                    instruction.address,
                )
            holds = unsure(number, threads, holds, np.asarray(known))
        else:
            threads.took[number] = holds
        taken, passed = mask & holds, mask & ~holds
        exits = targets(threads, taken) if taken.any() else []
        return [*exits, (following, passed)] if passed.any() else exits

    return leave


def _targets(flow: Flow, number: int) -> Callable[[Threads, Array], list[tuple[int, Array]]]:
    instruction = flow.code(number)[-1]
    if instruction.family in ENDS:
        return lambda threads, mask: []
    if instruction.target is not None:
        block = flow.block_at[instruction.target]
        return lambda threads, mask: [(block, mask)]
    if instruction.family in CALLS:
        after = number + 1
        return lambda threads, mask: [(after, mask)]
    operands = instruction.operands
    registers = [number_of(register) for operand in operands for register in operand.registers]
    offset = sum(operand.offset if isinstance(operand, Address) else integer_of(operand) or 0 for operand in operands)

    def targets(threads: Threads, mask: Array) -> list[tuple[int, Array]]:
        address, known = registers[0](threads) if registers else (np.zeros((1, 1, 1), dtype=np.int64), False)
        if known is not True and not np.all(np.where(mask, known, True)):
            raise CannotFollow(UNKNOWN_TARGET, instruction.address)
        # Addresses in code are offsets within it, or from the jump itself where it is relative to where it stands.
        places = address + offset & WORD_MASK
        if instruction.family in INDIRECT:
            places = address + offset + instruction.address + 16 & WORD_MASK
        chosen = np.broadcast_to(places, np.broadcast_shapes(places.shape, mask.shape))
        exits = []
        for place in np.unique(chosen[np.broadcast_to(mask, chosen.shape)]):
            if int(place) not in flow.block_at:
                raise CannotFollow(UNKNOWN_TARGET, instruction.address)
            exits.append((flow.block_at[int(place)], mask & (chosen == place)))
        return exits

    return targets
