"""Copies of neighbouring bytes by TMA, without a descriptor: each is a box of one axis, of memory as a whole.

    UBLKCP.S.G [UR8], [UR6], UR4            to shared memory at UR8, with the mbarrier at UR9, from global memory at UR6
    UBLKCP.G.S [UR6], [UR5], UR4            to global memory at UR6, from shared memory at UR5
    UBLKRED.G.S.ADD.F32.RN [UR6], [UR5], UR4       the same, added to what is there

UR4 is how much, in units of 16 B. Source: what ptxas 12.9 makes of `cp.async.bulk` and `cp.reduce.async.bulk`.
"""

import numpy as np

from ...limits import TMA_STRIDE_BYTES
from ...sass.decode import Instruction
from ...sass.memory_instructions import BULK_COPIES, FROM_GLOBAL
from ..read_operands import number_of, pair_of, predicate_of
from ..thread_values import SHAPE, Array, first_lane
from ..threads import Threads
from .boxes import Boxes, BoxTouch, begin_of, strange_boxes
from .descriptor import Descriptor

MEMORY = np.full(SHAPE, 1 << 62, dtype=np.int64)
"""More than any address: nothing of a copy without a descriptor is clipped [B]."""
DIRECTIONS = (FROM_GLOBAL, ("G", "S"))


class BulkTouch(BoxTouch):
    """Reads the bytes that an instruction copies."""

    def __init__(self, instruction: Instruction) -> None:
        loads = instruction.modifiers[:2] == FROM_GLOBAL
        memory, size = begin_of(instruction.operands[1 if loads else 0]), instruction.operands[2]
        assert memory  # `unfollowed` has let it pass
        guards = [instruction.guard] if instruction.guard else []
        sizes = [name for register in size.registers for name in register.names(1)]
        self.names = (*(guard.name for guard in guards), *memory.names(2), *sizes)
        self.guards = [predicate_of(guard) for guard in guards]
        self._address, self._size = pair_of(memory), number_of(size)

    def descriptor(self, threads: Threads, active: Array) -> Descriptor | None:
        """All of memory, in boxes as large as the largest copy of the active warps; None where that is not known."""
        units, known = first_lane(self._size(threads))
        shape = np.broadcast_shapes(units.shape, active.shape)
        taking = np.broadcast_to(active, shape)
        if not np.all(np.broadcast_to(known, shape)[taking]):
            return None
        most = int(np.broadcast_to(units, shape)[taking].max(initial=0)) * TMA_STRIDE_BYTES
        return Descriptor(address=0 * MEMORY, sizes=(MEMORY,), strides=(1,), box=(most,), element_bytes=1)

    def boxes(self, threads: Threads, active: Array, descriptor: Descriptor) -> Boxes | None:
        """The bytes; None where their address is not known."""
        (address, known), (units, _) = (first_lane(read(threads)) for read in (self._address, self._size))
        if not np.all(np.asarray(known) | ~active):
            return None
        count = units * TMA_STRIDE_BYTES
        return Boxes(origin=address, corners=(address,), first=(0 * count,), count=(count,), descriptor=descriptor)


def touch_of(instruction: Instruction) -> BoxTouch:
    """Reads what an instruction copies."""
    return BulkTouch(instruction) if instruction.family in BULK_COPIES else BoxTouch(instruction)


def unfollowed(instruction: Instruction) -> bool:
    """Whether it copies in a way that is not followed: strange boxes, or between or to several CTAs of a cluster."""
    if instruction.family not in BULK_COPIES or instruction.never_runs:
        return strange_boxes(instruction)
    memory = 1 if instruction.modifiers[:2] == FROM_GLOBAL else 0
    plain = instruction.modifiers[:2] in DIRECTIONS and "MULTICAST" not in instruction.modifiers
    return not (plain and len(instruction.operands) > 2 and begin_of(instruction.operands[memory]))
