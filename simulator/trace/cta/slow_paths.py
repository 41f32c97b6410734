"""Slow paths of IEEE divisions and square roots: which side of a branch on computed values is the rare one.

The compiler makes of such an operation a few multiplications, which are right for all but denormals and what is near
to overflow, and a branch to a subroutine for these. The subroutine uses registers alone.

Source: code that ptxas makes of `div.rn.f32`, `div.rn.f64` and `sqrt.rn.f32`. Three kernels that divide so issue on an
H200 what they do without these paths, to 0.0 % (`torchao.fp8_training_quantise`, docs/validation/public-kernels.md).
"""

from ...sass.flow import CALLS, RETURNS, Flow
from ..accesses import SHARED
from ..shared_accesses import STORES as SHARED_STORES
from .kinds import TOUCHING

MEMORY = TOUCHING | SHARED | SHARED_STORES
"""Families of instructions that touch memory, except local memory."""


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
