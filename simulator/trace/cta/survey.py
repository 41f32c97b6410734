"""How often each CTA of a launch runs each block of the code: all CTAs at a time, a few threads of each.

The threads are the first and the last lane of the first and of the last warp: code that goes ways of its own at the
edges of a tile does so there. Where warps tell each other something through shared memory, all threads are followed.
"""

import numpy as np

from ...limits import WARP_THREADS
from ..compute.lanes import LanesDiffer
from ..deciding import BARRIERS
from ..executions import run_through, special_registers
from ..jumps import prepare
from ..operands import Threads
from ..values import Array, Value
from .doubts import Doubts
from .given import Subject
from .sites import Slice, find_deciding_slice, noting

AT_ONCE = 1 << 15
"""CTAs that are followed at a time, for the sake of memory."""
AT_ONCE_WHOLE = 1 << 18
"""The same where all threads are followed, in threads: what is known of them stays in a processor's caches."""
PROBES = 4


def survey(subject: Subject, doubts: Doubts) -> Array:
    """Executions of each block, in the warp of a CTA that runs it most often.

    Returns:
        int64 (CTAs, blocks).

    Raises:
        Refused: a branch depends on what is not known.
        ValueError: the code does not end; one line.
    """
    found = find_deciding_slice(subject)
    if found.together:
        return _survey(subject, found, doubts, whole=True)
    try:
        return _survey(subject, found, doubts, whole=False)
    except LanesDiffer:
        return _survey(subject, found, doubts, whole=True)


def _survey(subject: Subject, found: Slice, doubts: Doubts, whole: bool) -> Array:
    called, flow, places = subject.called, subject.flow, found.places
    if not whole:
        places = tuple(tuple(p for p in block if flow.instructions[p].family not in BARRIERS) for block in places)
    code = prepare(flow, places, noting(subject, found, doubts, lambda *_: None), doubts.settle)
    width = called.warps if whole else PROBES
    step = max(1, AT_ONCE_WHOLE // (called.warps * WARP_THREADS)) if whole else AT_ONCE
    parts = []
    for begin in range(0, called.ctas, step):
        ctas = np.arange(begin, min(begin + step, called.ctas))
        special = (special_registers if whole else probes)(called.grid, ctas, called.warps)
        threads = Threads(constants=subject.constants, special=special, whole=whole)
        counts, _ = run_through(flow, code, threads, len(ctas), width)
        parts.append(counts.max(axis=1))
    return np.concatenate(parts)


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
