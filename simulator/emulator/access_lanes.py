"""Which lanes of warps an instruction has access memory, and at which addresses."""

import numpy as np

from ..limits import WARP_THREADS
from ..sass.decode import Instruction
from ..sass.memory_instructions import BOX_COPIES, COPY, addressed, constant_indexes
from ..sass.operands import Predicate
from .read_operands import global_address_of, number_of, predicate_of
from .thread_values import Array, known_to_all, narrowed_to
from .threads import Threads, existing

ONLY_GUARDED = frozenset({*BOX_COPIES, "SYNCS"})
"""Of a bulk copy, and of the announcement of its bytes, all that is asked is who takes part."""


class Touch:
    """Reads the addresses of an instruction (in shared memory first, for a copy), and which lanes take part.

    Args of `lanes`: shape: CTAs, warps, lanes. It returns arrays of (warps of all CTAs, lanes): addresses, then whether
    a lane takes part, as those do of whom it is not known; None where an address is not known.
    """

    def __init__(self, instruction: Instruction) -> None:
        operands = () if instruction.family in ONLY_GUARDED else addressed(instruction)
        indexes = constant_indexes(instruction)
        conditions = (instruction.guard, *(instruction.operands[2:3] if instruction.family == COPY else ()))
        guards = [operand for operand in conditions if isinstance(operand, Predicate)]
        self.names = (*(guard.name for guard in guards), *(name for operand in operands for name in operand.names))
        self.names += tuple(name for index in indexes for name in index.names(1))
        self.addresses = [*(global_address_of(operand) for operand in operands), *map(number_of, indexes)]
        self.guards = [predicate_of(guard) for guard in guards]

    def lanes(self, threads: Threads, shape: tuple[int, ...]) -> tuple[Array, ...] | None:
        """Addresses, and who takes part: see above."""
        active: Array = existing(threads.special)
        for guard in self.guards:
            active = narrowed_to(active, guard(threads))
        arrays = []
        for address in self.addresses:
            array, known = address(threads)
            if not known_to_all(known, active):
                return None
            arrays.append(array)
        return tuple(np.broadcast_to(array, shape).reshape(-1, WARP_THREADS) for array in (*arrays, active))
