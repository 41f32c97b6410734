"""Where an SM's instructions come from: a cache of each sub-core, one of the SM, and L2.

Code that fits the first is there whenever it is needed (what its first pass takes is left out). In longer code lines
are fetched anew: a warp that begins a line asks for the one behind it, so that it waits only where it issues faster
than lines come. The sub-core gives a line to one warp after the other, but for warps that ask while it is on its way.
Both caches forget what came first in a set (FIFO): a loop is larger than one and goes through it from front to back, so
any order of least use would do the same.
"""

from ...limits import SUB_CORES
from ..jit import inlined
from .latencies import Latencies
from .state import FETCH, FETCH_SETS, State

LINE_INSTRUCTIONS = 8
"""Of 16 B each, in a line of 128 B."""
AT_HAND = -1.0
"""When a line came that has never been fetched anew."""


@inlined
def _keeps(state: State, cache: int, line: int, lines: float) -> bool:
    """Whether a cache has a line that it was given at some time. Args: lines: that it holds."""
    return state.fetch_count[cache, line % FETCH_SETS] - state.fetched[cache, line] < lines / FETCH_SETS


@inlined
def _put(state: State, cache: int, line: int, time: float) -> None:
    state.fetch_count[cache, line % FETCH_SETS] += 1
    state.fetched[cache, line] = state.fetch_count[cache, line % FETCH_SETS]
    state.fetch_time[cache, line] = time


@inlined
def _fetch(state: State, latencies: Latencies, core: int, line: int, now: float) -> float:
    """When a sub-core has a line of the code that is asked for now."""
    if state.fetched[core, line] == 0:
        _put(state, core, line, AT_HAND)
        _put(state, SUB_CORES, line, 0.0)
        return now
    came = state.fetch_time[core, line]
    kept = _keeps(state, core, line, latencies.fetch_core_lines)
    if kept and (now < came or came == AT_HAND):
        return max(now, came)
    begin = max(now, state.fetch_free[core])
    state.fetch_free[core] = begin + latencies.fetch_turn
    if kept:
        return begin
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
    """A warp whose next instruction lies in another line of the code waits for that, and asks for the one behind."""
    line = state.pc[warp] // LINE_INSTRUCTIONS
    if line != state.line[warp]:
        there = state.ahead[warp] if line == state.line[warp] + 1 else _fetch(state, latencies, core, line, now)
        state.line[warp] = line
        state.ahead[warp] = there
        if (line + 1) * LINE_INSTRUCTIONS < state.fetched.shape[1]:
            state.ahead[warp] = _fetch(state, latencies, core, line + 1, max(now, there))
        if there > state.earliest[warp]:
            state.earliest[warp] = there
            state.reasons[warp, 1] = FETCH
