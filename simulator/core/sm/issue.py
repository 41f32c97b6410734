"""The pipelines of one SM: its resident CTAs' warps issue their instructions, in order, on four sub-cores.

A warp walks a *trace*: stretches of the code one after the other, so that no branch is ever evaluated.
It may issue when its last instruction's stall count has passed, the scoreboards that it waits for are free,
and its pipe takes another instruction; a sub-core issues one instruction a cycle.
Time is a real number of cycles, and goes from issue to issue: nothing happens in between.

Fixed latencies are the compiler's (stall counts). What has no fixed latency releases a scoreboard here.
A warpgroup's matmul (wgmma) starts when its four warps have issued it and the tensor cores are free, and runs on beside
them: it reads operands from shared memory, and takes most of the register port of its sub-cores. One in tensor memory
(tcgen05) starts when one warp has issued it, and leaves the register port alone.
Other instructions wait for the port, each a few cycles from when its pipe is free. What they read beyond what the
matmul leaves (*port credit*, a token bucket) delays the matmul.
Of warps that could issue at the same time, the one that issued last goes on, else the oldest does (greedy then oldest);
in front of a busy pipe, or a full queue of memory instructions, they take turns.
"""

import numpy as np

from ...limits import SUB_CORES, WARPGROUP_WARPS
from ..jit import compiled, inlined
from .effects import complete_phase, take_effect
from .fetch import begin_line
from .instruction import ALU, FMA, HEAVY, LSU, MATMUL, MATMUL_COMMIT, NO_PIPE, TENSOR_PIPE, SmInstruction
from .latencies import Latencies
from .memory_pipe import delay_for_matmul, lsu_queue_free_at
from .state import (
    BUSY_PIPE,
    FIXED,
    MATMULS,
    NOT_SELECTED,
    PORT_BUSY,
    QUEUED,
    RESTARTS,
    RESTED,
    RING,
    SHARED_MEMORY,
    SLOTS,
    State,
)
from .waits import end_of_matmul, find_ready, port_credit
from .warps import go_on, start_cta

LEAST_CYCLES = 1.0
"""That anything takes in the queue of the tensor cores, which is work of nobody's where it is no matmul."""


@inlined
def _count_rest(state: State, begin: float, end: float, latencies: Latencies) -> None:
    """Record that the tensor cores are busy from `begin` to `end`, and how long they were idle before."""
    sm = state.sm[0]
    pause = begin - sm.tensor_end - latencies.clock_rest
    if pause > 0.0:
        short = latencies.short_restart
        state.used[RESTARTS] += short + (1.0 - short) * min(1.0, pause / latencies.full_restart)
        state.used[RESTED] += pause
    sm.tensor_end = max(sm.tensor_end, end)


@inlined
def _evenly(number: int) -> float:
    """A number between -1 and 1 for each argument: a multiplicative hash, evenly spread, with mean 0."""
    return ((number * 2654435761 >> 12) & 255) / 127.5 - 1.0


@inlined
def _save_port_credit(state: State, left: float, latencies: Latencies) -> None:
    """Bring each sub-core's port credit up to date, before the rate at which it grows changes."""
    clock = state.sm[0].clock
    for core in range(SUB_CORES):
        state.credit[core] = port_credit(state, core, clock, left, latencies.port_credit)
        state.credit_time[core] = clock


@inlined
def _start_matmul(state: State, code: np.ndarray, latencies: Latencies, per_cta: int) -> None:
    """Start the next matmul; it takes longer where shared memory cannot deliver its operands in time.

    Args:
        per_cta: warpgroups of a CTA.
    """
    sm = state.sm[0]
    head, clock = sm.queue_head % QUEUED, sm.clock
    group, number = state.matmul_queue[head, 0], state.matmul_queue[head, 1]
    instruction = code[state.matmul_queue[head, 2]]
    mean = max(instruction.tensor_cycles, instruction.smem_lines, LEAST_CYCLES)
    length = mean * (1.0 + latencies.matmul_jitter * _evenly(sm.queue_head))
    sm.matmul_smem_share = instruction.smem_lines / mean
    sm.matmul_cycles = length
    sm.port_left = 1.0 - latencies.port_share * instruction.port_reads / mean
    _save_port_credit(state, 1.0, latencies)
    for core in range(SUB_CORES):
        state.matmul_end[core] = clock + length
    sm.matmul_runs = 1
    _count_rest(state, clock, clock + length, latencies)
    state.matmul_times[group, number % RING, 0] = clock
    state.started[group] = number + 1
    state.used[MATMULS] += instruction.tensor_cycles
    state.used[SHARED_MEMORY] += instruction.smem_lines
    state.wake[group // per_cta] = 1
    state.stale[:] = 1


@inlined
def _end_matmul(state: State, code: np.ndarray, latencies: Latencies, per_cta: int) -> None:
    """End the running matmul and release its warpgroup; or tell an mbarrier that those before are done."""
    sm = state.sm[0]
    head = sm.queue_head % QUEUED
    _save_port_credit(state, sm.port_left, latencies)
    group, number = state.matmul_queue[head, 0], state.matmul_queue[head, 1]
    state.matmul_times[group, number % RING, 1] = sm.clock
    state.finished[group] = number + 1
    instruction = code[state.matmul_queue[head, 2]]
    if instruction.kind == MATMUL_COMMIT:
        complete_phase(state, group // per_cta, instruction.channel, sm.clock + instruction.latency_cycles)
    sm.queue_head += 1
    sm.matmul_runs = 0
    state.wake[group // per_cta] = 1
    state.stale[:] = 1


@inlined
def _goes_first(state: State, warp: int, other: int, core: int, queues: bool) -> bool:
    """Whether one warp has priority over another: greedy, then oldest, as on an H200 (decision 0010).

    Args:
        queues: both wait for the same busy pipe, or a full queue of memory instructions: there warps take turns, so
            that two of a sub-core store, or exponentiate, at the same rate (`softmax_beside.cu`).
    """
    if queues:
        return state.last_issue[warp] < state.last_issue[other]
    last = state.latest[core]
    return other != last and (warp == last or state.age[warp] < state.age[other])


@inlined
def _choose(state: State, code: np.ndarray, latencies: Latencies, core: int) -> None:
    """Which warp of a sub-core issues next, and when."""
    sm = state.sm[0]
    chosen, when, chosen_pipe = -1, np.inf, NO_PIPE
    now, left = sm.clock, sm.port_left
    beside_matmul = sm.matmul_runs and state.matmul_end[core] > now and left < 1.0
    queue_free = lsu_queue_free_at(state, core, latencies)
    for k in range(state.members.shape[1]):
        warp = state.members[core, k]
        if warp < 0:
            break
        time = state.ready[warp]
        if time == np.inf:
            continue
        instruction = code[state.pc[warp]]
        reads = instruction.port_reads
        time = max(time, now, state.issue_free[core], state.pipe_free[core, instruction.pipe])
        if beside_matmul and time < state.matmul_end[core] and reads > 0.0 and instruction.kind != MATMUL:
            since = max(state.ready[warp], state.pipe_free[core, instruction.pipe], state.read_time[core] + 1.0)
            time = max(time, min(since + latencies.port_wait, state.matmul_end[core]))
        pipe = instruction.pipe
        queues = False
        if pipe == chosen_pipe and pipe == LSU:
            queues = time == queue_free
        elif pipe == chosen_pipe and pipe != NO_PIPE and pipe != TENSOR_PIPE and latencies.pipe_turns:
            queues = state.pipe_free[core, pipe] > state.issue_free[core]
        if time < when or (time == when and _goes_first(state, warp, chosen, core, queues)):
            chosen, when, chosen_pipe = warp, time, pipe
    state.best_warp[core], state.best_time[core] = chosen, when


@inlined
def _look_at_woken(state: State, code: np.ndarray, width: int, per_cta: int, latencies: Latencies) -> None:
    """For slots whose barriers or copies have changed: work out anew when each of their warps may issue."""
    for slot in range(len(state.wake)):
        if state.wake[slot]:
            state.wake[slot] = 0
            state.stale[:] = 1
            for warp in range(slot * width, (slot + 1) * width):
                if state.stretch[warp] >= 0:
                    group = slot * per_cta + (warp - slot * width) // WARPGROUP_WARPS
                    find_ready(state, code, warp, slot, group, latencies)


@inlined
def _count_stalls(state: State, pipe: int, i: int, warp: int, core: int, now: float) -> float:
    """Attribute the cycles since the warp's last issue to stall reasons. Returns: when its pipe was free for it."""
    state.issues[i] += 1
    fixed = min(state.earliest[warp], now)
    state.stalls[i, state.reasons[warp, 1]] += max(0.0, fixed - state.last_issue[warp] - 1.0)
    ready = min(state.ready[warp], now)
    if ready > fixed:
        state.stalls[i, state.reasons[warp, 0]] += ready - fixed
        if state.producer[warp] >= 0:
            state.awaited[state.producer[warp]] += ready - fixed
    free = min(now, max(ready, state.pipe_free[core, pipe]))
    state.stalls[i, BUSY_PIPE] += free - ready
    selected = min(now, max(free, state.issue_free[core]))
    state.stalls[i, NOT_SELECTED] += selected - free
    state.stalls[i, PORT_BUSY] += now - selected
    return free


@inlined
def _issue(
    state: State, instruction: SmInstruction, latencies: Latencies, warp: int, core: int, now: float, pipe_free: float
) -> None:
    """An instruction takes its issue slot, its pipe, and the register port."""
    sm = state.sm[0]
    state.latest[core] = warp
    state.issue_free[core] = now + 1.0
    state.used[SLOTS] += 1.0
    pipe, reads, interval = instruction.pipe, instruction.port_reads, instruction.interval_cycles
    if reads > 0.0 and instruction.kind != MATMUL:
        state.read_time[core] = now
        if sm.matmul_runs and now < state.matmul_end[core] and sm.port_left < 1.0:
            credit = port_credit(state, core, now, sm.port_left, latencies.port_credit) - reads
            state.matmul_end[core] += max(0.0, -credit)
            state.credit[core] = max(0.0, credit)
            state.credit_time[core] = now
    if pipe != NO_PIPE:
        if pipe == TENSOR_PIPE:
            _count_rest(state, now, now + interval, latencies)
            state.pipe_free[core, FMA] = max(state.pipe_free[core, FMA], now) + instruction.fma_cycles
            for other in (ALU, HEAVY):
                state.pipe_free[core, other] = max(state.pipe_free[core, other], now) + instruction.alu_cycles
        state.pipe_free[core, pipe] = now + interval
        state.used[pipe] += interval
    state.earliest[warp] = now + instruction.stall_cycles
    state.last_issue[warp] = now
    state.reasons[warp, 1] = FIXED


@inlined
def _have_passed(state: State, laps: int) -> bool:
    """Whether a slot has passed the watched mark so often, and every other one once more since, or is done."""
    sm, every = state.sm[0], True
    if not sm.passed and state.laps[np.argmax(state.laps)] >= laps:
        sm.passed = 1
        for slot in range(len(state.laps)):
            state.laps[slot] = state.laps[slot] >= laps
    for slot in range(len(state.laps)):
        every = every and (state.laps[slot] > 0 or state.done[slot] > 0)
    return bool(sm.passed) and every


@compiled
def simulate_sm(
    code: np.ndarray, trace: np.ndarray, roles: np.ndarray, latencies: Latencies, rounds: int, laps: int, state: State
) -> int:
    """Run CTAs on an SM until every slot has finished so many, or one has passed the mark that is watched so often.

    Args:
        code: records of `instruction.INSTRUCTION`.
        trace: int64 (stretches, 3): first instruction, one past the last, mark to log (or -1).
        roles: int64 (warps of a CTA, 2): the stretches that a warp walks, from the first to before the second.
        rounds: CTAs of each slot, one after the other.
        laps: times that a slot passes `sm.watched`, and every other one once more then; 0: it is not asked for.
        state: a new one, which holds what comes out: log, issues, stalls, awaited, used.

    Returns:
        Entries of the log, which may be more than it has room for; negative where warps wait for each other for ever.
    """
    sm = state.sm[0]
    slots, width = len(state.starting), len(roles)
    per_cta = (width + WARPGROUP_WARPS - 1) // WARPGROUP_WARPS
    left = to_start = slots
    while left > 0:
        while to_start > 0:
            start_cta(state, trace, roles, int(np.argmin(state.starting)))
            to_start -= 1
        if not sm.matmul_runs and sm.queue_head < sm.queue_tail:
            _start_matmul(state, code, latencies, per_cta)
            delay_for_matmul(state, code, width, latencies)
        _look_at_woken(state, code, width, per_cta, latencies)
        for core in range(SUB_CORES):
            if state.stale[core]:
                state.stale[core] = 0
                _choose(state, code, latencies, core)
        core = int(np.argmin(state.best_time))
        end = end_of_matmul(state)
        if sm.matmul_runs and end <= state.best_time[core]:
            sm.clock = end
            _end_matmul(state, code, latencies, per_cta)
            continue
        warp = state.best_warp[core]
        if warp < 0:
            return -1 - sm.logged
        now = sm.clock = state.best_time[core]
        state.stale[core] = 1
        slot = warp // width
        group = slot * per_cta + (warp - slot * width) // WARPGROUP_WARPS
        i, logged = state.pc[warp], sm.logged
        pipe_free = _count_stalls(state, code[i].pipe, i, warp, core, now)
        _issue(state, code[i], latencies, warp, core, now, pipe_free)
        take_effect(state, code, i, warp, group, width, now, latencies)
        if go_on(state, trace, roles, latencies, warp, slot, now):
            to_start += 1
            if state.done[slot] == rounds:
                left -= 1
        if state.stretch[warp] >= 0:
            begin_line(state, latencies, warp, core, now)
            find_ready(state, code, warp, slot, group, latencies)
        if sm.logged > logged and laps > 0 and _have_passed(state, laps):
            break
    return sm.logged
