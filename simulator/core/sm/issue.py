"""The pipelines of one SM: its resident CTAs' warps issue their instructions, in order, on four sub-cores.

A warp walks a *trace*: stretches of the code one after the other, so that no branch is ever evaluated.
It may issue when its last instruction's stall count has passed, the scoreboards that it waits for are free,
and its pipe takes another instruction; a sub-core issues one instruction a cycle.
Time is a real number of cycles, and goes from issue to issue: nothing happens in between.

Fixed latencies are the compiler's (stall counts). What has no fixed latency releases a scoreboard here.
A warpgroup's tile product starts when its four warps have issued it and the tensor cores are free, and runs on beside
them: it reads operands from shared memory, and takes most of the register port of its sub-cores.
What it leaves adds up, so that a few instructions may issue at once, and more of them one by one;
a long row of instructions without a gap holds the product up instead.
Of warps that could issue at the same time, the one that issued last goes on, else the oldest does; in front of a full
queue of memory instructions they take turns.
"""

import numpy as np

from ..jit import compiled, inlined
from .effects import take_effect
from .memory_pipe import push_back, queue_free_at
from .tables import (
    BUSY_PIPE,
    CLOCK,
    FIXED,
    GROUP,
    HEAD,
    INTERVAL,
    KIND,
    LAST,
    LENGTH,
    LOGGED,
    LSU,
    MATMUL,
    MULTIPLYING,
    NO_PIPE,
    NOT_SELECTED,
    PIPE,
    PORT,
    PORT_BUSY,
    PORT_LEFT,
    PRODUCTS,
    QUEUED,
    RESTARTS,
    RESTED,
    RING,
    SHARED_MEMORY,
    SLOTS,
    SMEM,
    SMEM_SHARE,
    STALL,
    SUB_CORES,
    TAIL,
    TENSOR,
    TENSOR_PIPE,
    Latencies,
    State,
)
from .waits import end_of_product, find_ready, port_credit
from .warps import go_on, start_cta


@inlined
def _multiply(state: State, begin: float, end: float, latencies: Latencies) -> None:
    """Tensor cores work from `begin` to `end`: how long have they rested before?"""
    pause = begin - state.links[LAST] - latencies.rest
    if pause > 0.0:
        short = latencies.short_rest
        state.used[RESTARTS] += short + (1.0 - short) * min(1.0, pause / latencies.full_rest)
        state.used[RESTED] += pause
    state.links[LAST] = max(state.links[LAST], end)


@inlined
def _evenly(number: int) -> float:
    """A number between -1 and 1 for each: steps of a multiplicative hash, evenly spread, which balance."""
    return ((number * 2654435761 >> 12) & 255) / 127.5 - 1.0


@inlined
def _start_product(state: State, rates: np.ndarray, latencies: Latencies, per_cta: int) -> None:
    """The next product begins; it lasts longer where shared memory cannot bring its operands in time."""
    head, links = state.queue[HEAD] % QUEUED, state.links
    group, number, i = state.queued[head, 0], state.queued[head, 1], state.queued[head, 2]
    clock = links[CLOCK]
    smem = rates[i, SMEM]
    mean = max(rates[i, TENSOR], smem)
    length = mean * (1.0 + latencies.jitter * _evenly(state.queue[HEAD]))
    links[SMEM_SHARE] = smem / mean
    links[LENGTH] = length
    links[PORT_LEFT] = 1.0 - latencies.port * rates[i, PORT] / mean
    for core in range(SUB_CORES):
        state.product_end[core] = clock + length
        state.credit[core] = port_credit(state, core, clock, 1.0, latencies.slack)
        state.credit_time[core] = clock
    state.queue[MULTIPLYING] = 1
    _multiply(state, clock, clock + length, latencies)
    state.times[group, number % RING, 0] = clock
    state.started[group] = number + 1
    state.used[PRODUCTS] += rates[i, TENSOR]
    state.used[SHARED_MEMORY] += smem
    state.wake[group // per_cta] = 1
    state.dirty[:] = 1


@inlined
def _end_product(state: State, latencies: Latencies, per_cta: int) -> None:
    head = state.queue[HEAD] % QUEUED
    clock = state.links[CLOCK]
    for core in range(SUB_CORES):
        state.credit[core] = port_credit(state, core, clock, state.links[PORT_LEFT], latencies.slack)
        state.credit_time[core] = clock
    group, number = state.queued[head, 0], state.queued[head, 1]
    state.times[group, number % RING, 1] = clock
    state.finished[group] = number + 1
    state.queue[HEAD] += 1
    state.queue[MULTIPLYING] = 0
    state.wake[group // per_cta] = 1
    state.dirty[:] = 1


@inlined
def _goes_first(state: State, warp: int, other: int, core: int, queues: bool) -> bool:
    """Greedy, then oldest: on an H200, CTAs of one SM are the faster the older they are (decision 0010).

    But in front of a full queue of memory instructions warps take turns: two of a sub-core store at the same pace.

    Args:
        queues: both wait for a place there.
    """
    if queues:
        return state.last_issue[warp] < state.last_issue[other]
    last = state.latest[core]
    return other != last and (warp == last or state.age[warp] < state.age[other])


@inlined
def _choose(state: State, code: np.ndarray, rates: np.ndarray, latencies: Latencies, core: int) -> None:
    """Which warp of a sub-core issues next, and when."""
    chosen, when, chosen_to_memory = -1, np.inf, False
    now, left = state.links[CLOCK], state.links[PORT_LEFT]
    beside = state.queue[MULTIPLYING] and state.product_end[core] > now
    queue_free = queue_free_at(state, core, latencies)
    for k in range(state.members.shape[1]):
        warp = state.members[core, k]
        if warp < 0:
            break
        time = state.ready[warp]
        if time == np.inf:
            continue
        i = state.pc[warp]
        time = max(time, now, state.issue_free[core], state.pipe_free[core, code[i, PIPE]])
        if beside and time < state.product_end[core] and rates[i, PORT] > 0.0 and code[i, KIND] != MATMUL:
            goes_on = warp == state.latest[core] and time <= state.issue_free[core]
            if not goes_on or state.run[core] < latencies.run:
                lacks = rates[i, PORT] - port_credit(state, core, time, left, latencies.slack)
                if lacks > 0.0:
                    time = min(time + lacks / left, state.product_end[core])
        to_memory = code[i, PIPE] == LSU
        queues = to_memory and chosen_to_memory and time == queue_free
        if time < when or (time == when and _goes_first(state, warp, chosen, core, queues)):
            chosen, when, chosen_to_memory = warp, time, to_memory
    state.best_warp[core], state.best_time[core] = chosen, when


@inlined
def _count(state: State, code: np.ndarray, i: int, warp: int, core: int, now: float) -> float:
    """Why it took so long since the warp's last instruction. Returns: when its pipe was free for it."""
    state.counts[i] += 1
    fixed = min(state.earliest[warp], now)
    state.stalls[i, state.why[warp, 1]] += max(0.0, fixed - state.last_issue[warp] - 1.0)
    own = min(state.ready[warp], now)
    if own > fixed:
        state.stalls[i, state.why[warp, 0]] += own - fixed
        if state.blamed[warp] >= 0:
            state.blames[state.blamed[warp]] += own - fixed
    free = min(now, max(own, state.pipe_free[core, code[i, PIPE]]))
    state.stalls[i, BUSY_PIPE] += free - own
    taken = min(now, max(free, state.issue_free[core]))
    state.stalls[i, NOT_SELECTED] += taken - free
    state.stalls[i, PORT_BUSY] += now - taken
    return free


@inlined
def _issue(
    state: State, code: np.ndarray, rates: np.ndarray, latencies: Latencies, i: int, warp: int, core: int,
    now: float, free: float,
) -> None:  # fmt: skip
    """An instruction takes its issue slot, its pipe, and the register port."""
    before, issue_before = state.latest[core], state.issue_free[core]
    state.latest[core] = warp
    state.issue_free[core] = now + 1.0
    state.used[SLOTS] += 1.0
    pipe, port, interval = code[i, PIPE], rates[i, PORT], rates[i, INTERVAL]
    if port > 0.0 and code[i, KIND] != MATMUL:
        if warp == before and free <= issue_before:
            state.run[core] += 1
        else:
            state.run[core] = 1
        if state.queue[MULTIPLYING] and now < state.product_end[core]:
            credit = port_credit(state, core, now, state.links[PORT_LEFT], latencies.slack) - port
            state.product_end[core] += latencies.held_up * max(0.0, -credit)
            state.credit[core] = max(0.0, credit)
            state.credit_time[core] = now
    if pipe != NO_PIPE:
        if pipe == TENSOR_PIPE:
            _multiply(state, now, now + interval, latencies)
        state.pipe_free[core, pipe] = now + interval
        state.used[pipe] += interval
    state.earliest[warp] = now + code[i, STALL]
    state.last_issue[warp] = now
    state.why[warp, 1] = FIXED


@compiled
def simulate_sm(
    code: np.ndarray,
    rates: np.ndarray,
    trace: np.ndarray,
    roles: np.ndarray,
    latencies: Latencies,
    rounds: int,
    state: State,
) -> int:
    """Run CTAs on an SM until every slot has finished so many.

    Args:
        code: int64 (instructions, COLUMNS), rates: float64 (instructions, RATES), as in `tables`;
        trace: int64 (stretches, 3): first instruction, one past the last, mark to log (or -1);
        roles: int64 (warps of a CTA, 2): the stretches that a warp walks; rounds: CTAs of each slot;
        state: a new one. Its log gets slot, mark and time whenever a slot's first warp enters a marked stretch,
            a CTA starts (START) or ends (EXIT); counts: issues of each instruction; stalls: cycles that warps waited
            there, by reason; blames: cycles that others waited for the scoreboard that it set;
            used: busy cycles of each pipe, summed over sub-cores, of the tensor cores under wgmma, of shared memory,
            and issue slots.

    Returns:
        Entries of the log; negative where warps wait for each other for ever.
    """
    slots, width = len(state.starting), len(roles)
    per_cta = (width + GROUP - 1) // GROUP
    left = to_start = slots
    while left > 0:
        while to_start > 0:
            start_cta(state, trace, roles, int(np.argmin(state.starting)))
            to_start -= 1
        if not state.queue[MULTIPLYING] and state.queue[HEAD] < state.queue[TAIL]:
            _start_product(state, rates, latencies, per_cta)
            push_back(state, code, rates, width, latencies)
        for slot in range(slots):
            if state.wake[slot]:
                state.wake[slot] = 0
                state.dirty[:] = 1
                for warp in range(slot * width, (slot + 1) * width):
                    if state.place[warp] >= 0:
                        group = slot * per_cta + (warp - slot * width) // GROUP
                        find_ready(state, code, warp, slot, group, latencies)
        for core in range(SUB_CORES):
            if state.dirty[core]:
                state.dirty[core] = 0
                _choose(state, code, rates, latencies, core)
        core = int(np.argmin(state.best_time))
        end = end_of_product(state)
        if state.queue[MULTIPLYING] and end <= state.best_time[core]:
            state.links[CLOCK] = end
            _end_product(state, latencies, per_cta)
            continue
        warp = state.best_warp[core]
        if warp < 0:
            return -1 - state.queue[LOGGED]
        now = state.links[CLOCK] = state.best_time[core]
        state.dirty[core] = 1
        slot = warp // width
        group = slot * per_cta + (warp - slot * width) // GROUP
        i = state.pc[warp]
        free = _count(state, code, i, warp, core, now)
        _issue(state, code, rates, latencies, i, warp, core, now, free)
        take_effect(state, code, rates, i, warp, slot, group, width, now, latencies)
        if go_on(state, trace, roles, latencies, warp, slot, now):
            to_start += 1
            if state.done[slot] == rounds:
                left -= 1
        if state.place[warp] >= 0:
            find_ready(state, code, warp, slot, group, latencies)
    return state.queue[LOGGED]
