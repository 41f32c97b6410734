"""Sides of branches on computed values that are taken to be rare: those that hold a loop, or an array in local memory.

A compiler keeps short alternatives in line; what it puts behind a branch together with a loop is a slow path, such as
the reduction of large arguments of sin and cos in libdevice, or what an author guards by a test of the data.
A branch after which nothing but the end of the kernel follows is none of these: it decides whether the CTA has work.

Source: `tl.sin` of 16.8 M normal numbers takes an H100 45.8 us, a copy of as many 43 us, as if no warp had taken the
path for |x| > 105615, which would add two thirds of the time.

The slow path of an IEEE division or square root is rare, too.
The compiler makes of such an operation a few multiplications, which are right for all but denormals and what is near
to overflow, and a branch to a subroutine for these. The subroutine uses registers alone.

Source: code that ptxas makes of `div.rn.f32`, `div.rn.f64` and `sqrt.rn.f32`. Three kernels that divide so issue on an
H200 what they do without these paths, to 0.0 % (`torchao.fp8_training_quantise`, docs/validation/public-kernels.md).
"""

from functools import cached_property

from ...sass.flow import CALLS, RETURNS, Flow
from ...sass.graph import find_post_dominators
from ...sass.memory_instructions import GLOBAL, PLAIN_SHARED, SHARED_STORES, is_access
from ...sass.operands import stack_offset

LOCAL = frozenset({"LDL", "STL"})
MEMORY = GLOBAL | PLAIN_SHARED | SHARED_STORES
"""Families of instructions that touch memory, except local memory."""


class RareSides:
    """Which successor of a block is rare, for the blocks of some code."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._rare_of: dict[int, int | None] = {}

    def rare(self, block: int) -> int | None:
        """The successor of a block that is taken to be rare; None where neither is, or both hold a loop.

        Args:
            block: that ends in a branch whose condition is not known.
        """
        if block not in self._rare_of:
            self._rare_of[block] = self._find_rare(block)
        return self._rare_of[block]

    def _find_rare(self, block: int) -> int | None:
        meeting, sides = self._meetings[block], self._flow.blocks[block].successors
        if len(sides) != 2 or meeting < 0 or not self._touches_memory_after(meeting, block):
            return None
        rare = [side for side in sides if self._holds_loop_or_array(self.side(side, meeting))]
        return rare[0] if len(rare) == 1 else None

    def holds_array(self, block: int) -> bool:
        """Whether the rare side of a block uses an array in local memory, as the slow paths of libdevice do."""
        side = self.rare(block)
        return side is not None and any(self._uses_array(other) for other in self.side(side, self._meetings[block]))

    def exits(self, block: int) -> list[int]:
        """Blocks whose branches decide how often the loops on the rare side of a block run."""
        side = self.rare(block)
        blocks = frozenset() if side is None else self.side(side, self._meetings[block])
        return [
            inside
            for loop in (self._flow.loops[number] for number in self._loops(blocks))
            for inside in loop.blocks
            if not loop.blocks.issuperset(self._flow.blocks[inside].successors)
        ]

    def guards(self, block: int) -> frozenset[int]:
        """A block whose rare side holds a loop, and blocks on this side that end in a further branch around it."""
        side = self.rare(block)
        blocks = frozenset() if side is None else self.side(side, self._meetings[block])
        inner = {other: self.rare(other) for other in blocks}
        return frozenset({block}).union(
            other
            for other, rare in inner.items()
            if rare is not None and self._loops(self.side(rare, self._meetings[other])) == self._loops(blocks)
        )

    def outside(self, block: int) -> int | None:
        """The successor of a block that alone calls a function outside of the kernel before both sides meet again.

        Such a function belongs to the CUDA runtime: what prints, or what a failed assertion calls.
        """
        meeting, sides = self._meetings[block], self._flow.blocks[block].successors
        calling = [
            side for side in sides if any(calls_outside(self._flow, other) for other in self.side(side, meeting))
        ]
        return calling[0] if len(calling) == 1 and len(sides) == 2 else None

    def side(self, first: int, meeting: int) -> frozenset[int]:
        """Blocks of a side of a branch. Args: first: of them; meeting: where both sides meet, which is left out."""
        reached: set[int] = set()
        waiting = [first] if first != meeting else []
        while waiting:
            block = waiting.pop()
            reached.add(block)
            successors = self._flow.blocks[block].successors
            waiting += [other for other in successors if other not in reached and other != meeting]
        return frozenset(reached)

    @cached_property
    def _meetings(self) -> tuple[int, ...]:
        """Block -> the first other block that all ways from it lead through; -1: none."""
        return find_post_dominators([block.successors for block in self._flow.blocks])

    def _holds_loop_or_array(self, blocks: frozenset[int]) -> bool:
        return bool(self._loops(blocks)) or any(map(self._uses_array, blocks))

    def _loops(self, blocks: frozenset[int]) -> list[int]:
        return [number for number, loop in enumerate(self._flow.loops) if loop.header in blocks]

    def _uses_array(self, block: int) -> bool:
        """Whether a block touches local memory at an address that is computed: no spilled register lies there."""
        return any(
            instruction.family in LOCAL and all(stack_offset(operand) is None for operand in instruction.operands)
            for instruction in self._flow.code(block)
        )

    def _touches_memory_after(self, meeting: int, block: int) -> bool:
        after = self.side(meeting, block)
        return any(is_access(instruction) for other in after for instruction in self._flow.code(other))


def calls_outside(flow: Flow, block: int) -> bool:
    """Whether a block ends in a call of a function that is not part of the kernel's code."""
    last = flow.code(block)[-1]
    return last.family in CALLS and last.target is None


def skips_slow_path(flow: Flow, block: int) -> bool | None:
    """Whether a branch whose one side calls a slow path is taken when that path is not; None: no side does, or both do.

    Args:
        block: number of the block that ends in the branch.
    """
    target = flow.block_at.get(flow.code(block)[-1].target or -1, -1)
    slow = {side for side in flow.blocks[block].successors if _calls_slow_path(flow, side)}
    return target not in slow if len(slow) == 1 and len(flow.blocks[block].successors) == 2 else None


def _calls_slow_path(flow: Flow, block: int) -> bool:
    last = flow.code(block)[-1]
    return last.family in CALLS and last.target is not None and _uses_registers_alone(flow, flow.block_at[last.target])


def _uses_registers_alone(flow: Flow, entry: int) -> bool:
    """Whether a subroutine touches no memory."""
    reached, waiting = {entry}, [entry]
    while waiting:
        code = flow.code(block := waiting.pop())
        if any(instruction.family in MEMORY for instruction in code):
            return False
        more = set() if code[-1].family in RETURNS else set(flow.blocks[block].successors) - reached
        reached |= more
        waiting += more
    return True
