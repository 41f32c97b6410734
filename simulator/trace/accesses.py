"""What a warp's memory instructions touch: lines, sectors, banks, from the addresses of its lanes.

The code computes the addresses: the emulator executes each block that a warp runs, in the warp's order, once or the
first two times, with the launch's own arguments; tensors begin at multiples of what matters. Branches are ignored:
following them took far longer and gave the same cycles (`docs/compiled-cost.md`). So what stands in a loop is seen in
its first iterations, what stands behind it as if there had been no others, and diverged lanes all run both sides.
Addresses that depend on data are known where the data are.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ..emulator.access_lanes import Touch
from ..emulator.semantics import compile_instruction
from ..emulator.thread_values import TRUE, UNKNOWN, Array, Value
from ..emulator.threads import Step, Threads
from ..limits import LINE_BYTES, POINTER_BYTES, SECTOR_BYTES, WARP_THREADS, WORD_BYTES
from ..sass.decode import Instruction
from ..sass.flow import FLOWS_KEPT, Flow
from ..sass.memory_instructions import (
    COPY,
    MATRIX_ROWS,
    PLAIN_GLOBAL,
    PLAIN_SHARED,
    ROW_BYTES,
    ROW_LANES,
    bytes_of,
    constant_indexes,
    is_box_load,
    matrices_of,
    stays_in_l1,
)
from ..sass.registers import written
from .control_slice import slice_of

ARRIVAL = "SYNCS.ARRIVE"
"""The announcement of a bulk copy's bytes."""
BANK_BYTES = 0x1000
"""More than constant bank 0 holds of a launch."""
FIRST_ARGUMENT = 0x140
"""Before that stand the grid and other things (from sm_100 on, behind it too): `constants` has what is asked for."""
BEGIN = 1 << 40
"""Where tensors begin: some code starts out in front of them."""
WARP_SHIFT = 48
"""Above the bits of a sector's number."""


@dataclass(frozen=True, slots=True)
class Access:
    """What an instruction touches, in the mean of the warps that run it.

    Args:
        lines: of global memory, different ones of each group of lanes that a line could serve (l1_duplicates.cu);
        sectors, moved_bytes: of global memory, different ones.
        passes: cycles that it takes shared memory, with what banks conflict; lanes: that take part.
        words: of a constant bank, different places.
        again: share of the warps that have loaded all of its sectors before, in the same block.
    """

    lanes: float
    lines: float = 0.0
    sectors: float = 0.0
    moved_bytes: float = 0.0
    passes: float = 0.0
    again: float = 0.0
    words: float = 0.0


def accesses(
    flow: Flow,
    paths: Sequence[Sequence[int]],
    constants: Mapping[int, int],
    special: Mapping[str, Value],
    loads: Mapping[int, Step] | None = None,
) -> dict[int, Access]:
    """Follow the warps of some CTAs, all of which have the same control paths.

    Args:
        paths: per warp the blocks that it runs, in order, each once, or a few times.
        constants: address in constant bank 0 [B] -> 32-bit word; arguments that are missing are taken for pointers,
            each to a tensor of its own, all else for 0.
        special: registers by name, as in `Threads`.
        loads: place of a load -> what it does to the threads, where what it returns may be known (`memory`).

    Returns:
        Place in the code -> what is touched there; places whose addresses are not known are missing.
    """
    touching, wanted, steps = _ready(flow)
    bank = _pointers() | dict(constants)
    seen: dict[int, list[tuple[Array, ...] | None]] = defaultdict(list)
    again: dict[int, list[Array]] = defaultdict(list)
    for path, warps in _alike(paths).items():
        threads = Threads(constants=bank, special=_of_warps(special, warps))
        ctas = np.broadcast_shapes(*(value[0].shape for value in threads.special.values()))[:1]
        shape = (*ctas, len(warps), WARP_THREADS)
        for block in path:
            loaded: dict[int, Array] = {}
            for place in wanted[block]:
                if place in touching:
                    lanes = touching[place].lanes(threads, shape)
                    seen[place].append(lanes)
                    if lanes and stays_in_l1(flow.instructions[place]):
                        loaded[place] = _sectors(*lanes)
                    if loads and place in loads:
                        loads[place](threads, TRUE[0])
                        continue
                    if place in steps:  # what a constant gives may lead to the addresses of others
                        steps[place](threads, TRUE[0])
                        continue
                    for name in written(flow.instructions[place]):
                        threads.registers[name] = UNKNOWN
                else:
                    steps[place](threads, TRUE[0])
            for place, share in _loaded_again(loaded).items():
                again[place].append(share)
    known = {place: [part for part in parts if part] for place, parts in seen.items()}
    return {
        place: _touched(flow.instructions[place], parts, again.get(place, []))
        for place, parts in known.items()
        if len(parts) == len(seen[place])
    }


@lru_cache(maxsize=FLOWS_KEPT)
def _ready(flow: Flow) -> tuple[Mapping[int, Touch], tuple[tuple[int, ...], ...], Mapping[int, Step]]:
    """Of code alone: what touches memory, the slice behind its addresses, and what all else in that does."""
    touching = {
        place: Touch(instruction) for place, instruction in enumerate(flow.instructions) if _touches(instruction)
    }
    wanted = slice_of(flow, {place: touch.names for place, touch in touching.items()})
    steps = {
        place: compile_instruction(flow.instructions[place])
        for block in wanted
        for place in block
        if place not in touching or constant_indexes(flow.instructions[place])
    }
    return touching, wanted, steps


def _pointers() -> dict[int, int]:
    """Constant bank 0 of a launch whose arguments are pointers to tensors far from each other."""
    upper = {at: at // POINTER_BYTES for at in range(FIRST_ARGUMENT + WORD_BYTES, BANK_BYTES, POINTER_BYTES)}
    return dict.fromkeys(range(0, BANK_BYTES, WORD_BYTES), 0) | upper


def _alike(paths: Sequence[Sequence[int]]) -> dict[tuple[int, ...], list[int]]:
    """Path -> the warps that run it."""
    warps: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for warp, path in enumerate(paths):
        warps[tuple(path)].append(warp)
    return warps


def _of_warps(special: Mapping[str, Value], warps: list[int]) -> dict[str, Value]:
    return {name: (array[:, warps] if array.shape[1] > 1 else array, known) for name, (array, known) in special.items()}


def _touches(instruction: Instruction) -> bool:
    plain = instruction.family in PLAIN_GLOBAL | PLAIN_SHARED | {COPY}
    announces = is_box_load(instruction) or instruction.opcode.startswith(ARRIVAL)
    return not instruction.never_runs and (plain or announces or bool(constant_indexes(instruction)))


def _sectors(addresses: Array, active: Array) -> Array:
    return np.where(active, (addresses + BEGIN) // SECTOR_BYTES, -1)


def _loaded_again(loaded: Mapping[int, Array]) -> dict[int, Array]:
    """Whether each warp that takes part has loaded all of it before, by place. Args: loaded: place -> sectors."""
    if not loaded:
        return {}
    sectors = np.stack(list(loaded.values()))
    inside = sectors >= 0
    # The first to touch a sector brings it to all that follow; warps do not count on each other.
    _, first = np.unique(sectors + (np.arange(sectors.shape[1]) << WARP_SHIFT)[:, None], return_index=True)
    new = np.zeros(sectors.size, dtype=np.bool_)
    new[first] = True
    missing = np.asarray((new.reshape(sectors.shape) & inside).any(axis=2))
    takes_part = np.asarray(inside.any(axis=2))
    return {place: ~missing[i][takes_part[i]] for i, place in enumerate(loaded)}


def _touched(instruction: Instruction, parts: list[tuple[Array, ...]], again: list[Array]) -> Access:
    *addresses, active = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    size, lanes = bytes_of(instruction), float(active.sum(axis=1).mean())
    if not addresses:
        return Access(lanes=lanes)
    if instruction.family == "LDC":
        return Access(lanes=lanes, words=float(_distinct(np.where(active, addresses[0], -1)).mean()))
    if instruction.family in MATRIX_ROWS:
        given = active & (np.arange(WARP_THREADS) < ROW_LANES * matrices_of(instruction))
        return Access(lanes=lanes, passes=_passes(addresses[0], given, ROW_BYTES))
    passes = _passes(addresses[0], active, size) if instruction.family not in PLAIN_GLOBAL else 0.0
    if instruction.family in PLAIN_SHARED:
        return Access(lanes=lanes, passes=passes)
    places = np.where(active, addresses[-1] + BEGIN, -1)
    sectors, moved = (float(_distinct(places // unit).mean()) for unit in (SECTOR_BYTES, size))
    lines = float(_distinct(_in_groups(places // LINE_BYTES, size)).sum(axis=1).mean())
    warps = np.concatenate(again) if again else np.zeros(0)
    share = float(warps.mean()) if warps.size else 0.0
    return Access(lanes=lanes, lines=lines, sectors=sectors, moved_bytes=moved * size, passes=passes, again=share)


def _distinct(numbers: Array) -> Array:
    """How many different numbers from 0 on stand in each row."""
    ordered = np.sort(numbers, axis=-1)
    new = np.ones(ordered.shape, dtype=np.bool_)
    new[..., 1:] = ordered[..., 1:] != ordered[..., :-1]
    counted: Array = (new & (ordered >= 0)).sum(axis=-1)
    return counted


def _in_groups(places: Array, size: int) -> Array:
    """Lanes by groups that a line could serve, that move `size` bytes each; of shape (warps, groups, lanes)."""
    return places.reshape(len(places), -1, LINE_BYTES // max(size, WORD_BYTES))


def _passes(addresses: Array, active: Array, size: int) -> float:
    """Cycles of shared memory in the mean: lanes go in groups that a line could serve, a bank serves one word each."""
    unit = max(size, WORD_BYTES)
    grouped = _in_groups(np.where(active, addresses // unit, -1), size)
    places = grouped.shape[-1]
    worst = np.zeros(grouped.shape[:2], dtype=np.int64)
    for place in range(places):
        worst = np.maximum(worst, _distinct(np.where(grouped % places == place, grouped, -1)))
    return float(worst.sum(axis=1).mean())
