"""How often each CTA of a launch runs each block of the code: all CTAs at a time, a few threads of each.

The threads are the first and the last lane of the first and of the last warp: code that goes ways of its own at the
edges of a tile does so there. Where warps tell each other something through shared memory, all threads are followed.
"""

import numpy as np

from ...limits import WARP_THREADS
from ..accesses import Touch
from ..deciding import BARRIERS, SHARED_LOADS, deciding
from ..executions import run_through, special_registers
from ..jumps import prepare
from ..operands import Threads
from ..values import Array, Value
from .doubts import Doubts
from .given import Subject
from .sites import Slice, noting

AT_ONCE = 1 << 15
"""CTAs that are followed at a time, for the sake of memory."""
AT_ONCE_WHOLE = 1 << 22
"""The same where all threads are followed, in threads."""
PROBES = 4


def survey(subject: Subject, doubts: Doubts) -> Array:
    """Executions of each block, in the warp of a CTA that runs it most often.

    Returns:
        int64 (CTAs, blocks).

    Raises:
        Refused: a branch depends on what is not known.
        ValueError: the code does not end; one line.
    """
    called, flow = subject.called, subject.flow
    places = deciding(flow)
    together = any(flow.instructions[place].family in SHARED_LOADS for block in places for place in block)
    if not together:
        places = tuple(tuple(p for p in block if flow.instructions[p].family not in BARRIERS) for block in places)
    loads = {p for block in places for p in block if flow.instructions[p].family in ("LDG", "LD")}
    touching = {place: Touch(flow.instructions[place]) for place in loads}
    replaced = noting(subject, Slice(places, touching), doubts, lambda *_: None)
    code = prepare(flow, places, replaced, doubts.settle)
    width = called.warps if together else PROBES
    step = max(1, AT_ONCE_WHOLE // (called.warps * WARP_THREADS)) if together else AT_ONCE
    found = []
    for begin in range(0, called.ctas, step):
        ctas = np.arange(begin, min(begin + step, called.ctas))
        special = (
            special_registers(called.grid, ctas, called.warps) if together else probes(called.grid, ctas, called.warps)
        )
        threads = Threads(constants=subject.constants, special=special)
        counts, _ = run_through(flow, code, threads, len(ctas), width)
        found.append(counts.max(axis=1))
    return np.concatenate(found)


def probes(grid: tuple[int, int, int], ctas: Array, warps: int) -> dict[str, Value]:
    """Special registers of the first and the last lane of the first and the last warp of each CTA.

    Each stands for a warp of one lane: arrays of (CTAs, 4, 1).
    """
    special = special_registers(grid, ctas, warps)
    lanes = np.array([0, WARP_THREADS - 1, 0, WARP_THREADS - 1], dtype=np.int64).reshape(1, PROBES, 1)
    first = np.array([0, 0, warps - 1, warps - 1], dtype=np.int64).reshape(1, PROBES, 1)
    special["SR_LANEID"] = lanes, True
    special["SR_TID.X"] = lanes + WARP_THREADS * first, True
    return special
