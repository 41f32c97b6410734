"""The state of the threads of some CTAs: registers, special registers, shared memory, constants."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ..limits import WARP_THREADS
from .shared_memory import SharedMemory
from .thread_values import TRUE, Array, Value


@dataclass(slots=True)
class Threads:
    """State of the threads of some CTAs.

    Args:
        constants: byte address in constant bank 0 -> 32-bit word: launch shape and kernel parameters.
        special: special registers by name, e.g. `SR_TID.X`.
        registers: by name, predicates too; those that nothing has been written to are missing, and read as 0.
        shared: what they have stored in shared memory.
        unknown_bits: by name of a register that is not known as a whole: the bits that are not (see `known_bits`).
        images: by name of a register: words of the TMA descriptor of which it holds one (see `tma.written`).
        descriptors: those in global memory: by address in the first CTA, addresses (CTAs, 1, 1) and words.
        took: block -> who last took the branch at its end of those that knew its condition.
        whole: whether all lanes of each warp are here, and not some of them that stand for it.
    """

    constants: Mapping[int, int]
    special: Mapping[str, Value]
    registers: dict[str, Value] = field(default_factory=dict)
    shared: SharedMemory = field(default_factory=SharedMemory)
    unknown_bits: dict[str, Array] = field(default_factory=dict)
    images: dict[str, list[Value]] = field(default_factory=dict)
    descriptors: dict[int, tuple[Array, list[Value]]] = field(default_factory=dict)
    took: dict[int, Array] = field(default_factory=dict)
    whole: bool = True


Step = Callable[[Threads, Array], None]
"""Does something to the threads that a mask selects."""


def lanes_below(lanes: Array) -> Array:
    """Mask of the lanes of lower number, as SR_LTMASK."""
    below: Array = (np.int64(1) << lanes.astype(np.int64)) - 1
    return below


THREAD, PRESENT = "thread", "present"
"""Among the special registers: number of a thread in its CTA, x fastest; whether there is such a thread, where the last
warp of a CTA is not full."""


def thread_numbers(numbers: Array, threads: Sequence[int]) -> dict[str, Value]:
    """Where threads stand in their CTA. Args: numbers: of them; threads: as of `launch.code.Code`."""
    if not threads:
        zero: Value = (np.zeros((1, 1, 1), dtype=np.int64), True)
        return {THREAD: (numbers, True), "SR_TID.X": (numbers, True), "SR_TID.Y": zero, "SR_TID.Z": zero}
    x, y, z = threads
    some_missing = x * y * z % WARP_THREADS
    return {
        **({PRESENT: (numbers < x * y * z, True)} if some_missing else {}),
        THREAD: (numbers, True),
        "SR_TID.X": (numbers % x, True),
        "SR_TID.Y": (numbers // x % y, True),
        "SR_TID.Z": (numbers // (x * y), True),
    }


def existing(special: Mapping[str, Value]) -> Array:
    """Which threads there are. Args: special: as in `Threads`."""
    return special.get(PRESENT, TRUE)[0]


def special_registers(
    grid: tuple[int, int, int],
    ctas: Array,
    warps: int,
    first: tuple[int, int, int] = (0, 0, 0),
    threads: Sequence[int] = (),
) -> dict[str, Value]:
    """What threads know of themselves.

    Args:
        grid: CTAs along x, y, z; ctas: their numbers; warps: of a CTA; first: where the CTA of number 0 stands;
        threads: as of `launch.code.Code`.
    """

    def along(values: Array, axis: int) -> Value:
        shape = [1, 1, 1]
        shape[axis] = -1
        return values.astype(np.int64).reshape(shape), True

    lanes = np.arange(WARP_THREADS)
    zero = along(np.zeros(1), 0)
    return {
        **thread_numbers(np.arange(warps * WARP_THREADS, dtype=np.int64).reshape(1, warps, WARP_THREADS), threads),
        "SR_LANEID": along(lanes, 2),
        "SR_LTMASK": along(lanes_below(lanes), 2),
        "SR_CTAID.X": along(first[0] + ctas % grid[0], 0),
        "SR_CTAID.Y": along(first[1] + ctas // grid[0] % grid[1], 0),
        "SR_CTAID.Z": along(first[2] + ctas // (grid[0] * grid[1]), 0),
        "SR_CgaCtaId": zero,
    }
