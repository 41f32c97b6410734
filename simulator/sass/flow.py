"""Where compiled code can go: basic blocks, dominators, natural loops and how they nest.

In: decoded instructions of one function. Out: a `Flow`.
A natural loop has one header that dominates an edge back to it; a branch backwards alone makes none,
since the compiler moves cold blocks (waits, calls) behind the end of the code.
Reconvergence (BSSY, BSYNC, WARPSYNC) only joins threads that went apart, so for the flow it falls through.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from ..refusal import CannotFollow
from .decode import Instruction, decode
from .graph import find_dominators, natural_loops
from .idesc import with_idescs
from .operands import Predicate

CALLS = frozenset({"CALL"})
RETURNS = frozenset({"RET"})
INDIRECT = frozenset({"BRX", "BRXU", "JMX", "JMXU"})
BRANCHES = frozenset({"BRA", "JMP"})
ENDS = frozenset({"EXIT", "KILL"})
BLOCK_ENDS = CALLS | RETURNS | INDIRECT | BRANCHES | ENDS
FLOWS_KEPT = 16
"""Kernels whose code is kept decoded, and what is found of it alone: it is traced, and then simulated once per class
of CTAs, and again for other shapes and devices."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Instructions that run one after the other. Args: first, stop: places in the code; successors: block numbers."""

    first: int
    stop: int
    successors: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """A natural loop.

    Args:
        header: the block through which it is entered; blocks: all its blocks, those of inner loops too.
        parent: number of the innermost loop around it, -1: none; depth: 0 for an outermost loop.
    """

    header: int
    blocks: frozenset[int]
    parent: int
    depth: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Flow:
    """Code and its structure; itself alone is equal to it, so that what is found of it can be kept.

    Args:
        instructions, blocks: in order of address; the first block is the entry.
        dominators: block -> the block that directly dominates it; itself for the entry, -1 where it cannot be reached.
        loops: in order of the address of their headers, an outer one before an inner one.
        block_at: address of a block's first instruction -> block.
    """

    instructions: tuple[Instruction, ...]
    blocks: tuple[Block, ...]
    dominators: tuple[int, ...]
    loops: tuple[Loop, ...]
    block_at: dict[int, int] = field(repr=False)

    def code(self, block: int) -> tuple[Instruction, ...]:
        """Instructions of a block."""
        return self.instructions[self.blocks[block].first : self.blocks[block].stop]

    def loop_of(self, block: int) -> int:
        """The innermost loop that holds a block; -1: none."""
        inside = [number for number, loop in enumerate(self.loops) if block in loop.blocks]
        return max(inside, key=lambda number: self.loops[number].depth, default=-1)


@lru_cache(maxsize=FLOWS_KEPT)
def flow_of(text: str) -> Flow:
    """Blocks and loops of the one function in a listing; Raises as `decode` and `find_flow`."""
    return find_flow(decode(text))


def find_flow(instructions: Sequence[Instruction]) -> Flow:
    """Blocks and loops of a function.

    Raises:
        CannotFollow: a jump goes to no instruction of the function, or the extents of a matmul are not known.
    """
    code = tuple(instructions)
    blocks = _blocks(code)
    successors = [block.successors for block in blocks]
    dominators = find_dominators(successors)
    return Flow(
        instructions=with_idescs(code, [(block.first, block.stop) for block in blocks], successors),
        blocks=blocks,
        dominators=dominators,
        loops=_loops(natural_loops(successors, dominators)),
        block_at={code[block.first].address: number for number, block in enumerate(blocks)},
    )


def is_conditional(instruction: Instruction) -> bool:
    """Whether a warp may pass a jump or an end without taking it."""
    if instruction.predicate:
        return True
    conditions = instruction.operands[:-1] if instruction.family in BRANCHES else ()
    return any(not isinstance(operand, Predicate) or operand.names or operand.negated for operand in conditions)


def _blocks(code: tuple[Instruction, ...]) -> tuple[Block, ...]:
    places = {instruction.address: place for place, instruction in enumerate(code)}
    starts = {0}
    for place, instruction in enumerate(code):
        if instruction.target is not None:
            if instruction.target not in places:
                raise CannotFollow(f"jump at {instruction.address:#x} goes to {instruction.target:#x}, no instruction")
            starts.add(places[instruction.target])
        starts |= {places[address] for address in instruction.table if address in places}
        if instruction.family in BLOCK_ENDS and place + 1 < len(code):
            starts.add(place + 1)
    firsts = sorted(starts)
    numbers = {first: number for number, first in enumerate(firsts)}
    stops = [*firsts[1:], len(code)]
    # A call comes back to the block after it, from whichever return the function that it calls has.
    after_calls = [numbers[stop] for stop in stops if code[stop - 1].family in CALLS and stop in numbers]
    led_to = {code[stop - 1].target for stop in stops}
    blocks = []
    for number, (first, stop) in enumerate(zip(firsts, stops, strict=True)):
        last = code[stop - 1]
        next_block = [number + 1] if stop < len(code) else []
        if last.family not in BLOCK_ENDS:
            successors = next_block
        elif last.family in RETURNS:
            successors = after_calls
        elif last.family in INDIRECT:
            # Where the table is not known, every block that nothing else leads to can be in it.
            successors = [numbers[places[address]] for address in last.table if address in places] or [
                other
                for other, start in enumerate(firsts)
                if other and code[start].address not in led_to and not _falls_through(code[start - 1])
            ]
        else:
            jump = [numbers[places[last.target]]] if last.target is not None else []
            # A function outside of the code (the CUDA runtime's printf, a failed assertion) comes back to what follows.
            outside = last.family in CALLS and last.target is None
            successors = [*jump, *(next_block if outside or is_conditional(last) else [])]
        if last.family in RETURNS | INDIRECT and is_conditional(last):
            successors = [*successors, *next_block]
        blocks.append(Block(first=first, stop=stop, successors=tuple(dict.fromkeys(successors))))
    return tuple(blocks)


def _falls_through(instruction: Instruction) -> bool:
    return instruction.family not in BLOCK_ENDS or is_conditional(instruction) or instruction.family in CALLS


def _loops(bodies: dict[int, set[int]]) -> tuple[Loop, ...]:
    """Loops in order of their headers' addresses, an outer one before those in it; no two share a header."""
    headers = sorted(bodies)
    loops = []
    for header in headers:
        around = [other for other in headers if other != header and header in bodies[other]]
        parent = min(around, key=lambda other: len(bodies[other]), default=-1)
        number = headers.index(parent) if parent >= 0 else -1
        loops.append(Loop(header=header, blocks=frozenset(bodies[header]), parent=number, depth=len(around)))
    return tuple(loops)
