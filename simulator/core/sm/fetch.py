"""Where an SM's instructions come from: a cache of each sub-core, one of the SM, and L2.

Code that fits the first is there whenever it is needed (what its first pass takes is left out). In longer loops each
line is fetched anew every time, and a warp waits for it; warps that follow close behind find it there or on its way,
but the sub-core gives a line to one warp after the other. Both caches forget what came first (FIFO): a loop is larger
than one and goes through it from front to back, so any order of least use would do the same.
"""

from ...limits import SUB_CORES
from ..jit import inlined
from .latencies import Latencies
from .state import FETCH, State

LINE_INSTRUCTIONS = 8
"""Of 16 B each, in a line of 128 B."""
FOLLOWING_CYCLES = 256.0
"""For so long after a line has come, warps that begin it take it from the fetch, one after the other: more than 16
warps need for that."""


@inlined
def _keeps(state: State, cache: int, line: int, lines: float) -> bool:
    """Whether a cache has a line that it was given at some time. Args: lines: that it holds."""
    return state.fetch_count[cache] - state.fetched[cache, line] < lines


@inlined
def _put(state: State, cache: int, line: int, time: float) -> None:
    state.fetch_count[cache] += 1
    state.fetched[cache, line] = state.fetch_count[cache]
    state.fetch_time[cache, line] = time


@inlined
def _fetch(state: State, latencies: Latencies, core: int, line: int, now: float) -> float:
    """When a sub-core has a line of the code for a warp that needs it now."""
    if state.fetched[core, line] == 0:
        _put(state, core, line, -FOLLOWING_CYCLES)
        _put(state, SUB_CORES, line, 0.0)
        return now
    there = state.fetch_time[core, line]
    kept = _keeps(state, core, line, latencies.fetch_core_lines)
    if kept and now >= there + FOLLOWING_CYCLES:
        return now
    begin = max(now, state.fetch_free[core])
    state.fetch_free[core] = begin + latencies.fetch_turn
    if kept:
        return max(begin, there)
    there = begin + latencies.fetch_from_sm
    if _keeps(state, SUB_CORES, line, latencies.fetch_sm_lines):
        there = max(there, state.fetch_time[SUB_CORES, line])
    else:
        sent = max(begin, state.fetch_free[SUB_CORES])
        state.fetch_free[SUB_CORES] = sent + latencies.fetch_l2_line
        there = sent + latencies.fetch_from_l2
        _put(state, SUB_CORES, line, there)
    _put(state, core, line, there)
    return there


@inlined
def begin_line(state: State, latencies: Latencies, warp: int, core: int, now: float) -> None:
    """A warp whose next instruction lies in another line of the code waits for that line."""
    line = state.pc[warp] // LINE_INSTRUCTIONS
    if line != state.line[warp]:
        state.line[warp] = line
        there = _fetch(state, latencies, core, line, now)
        if there > state.earliest[warp]:
            state.earliest[warp] = there
            state.reasons[warp, 1] = FETCH
