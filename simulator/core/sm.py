"""The pipelines of one SM: its resident CTAs' warps issue their instructions, in order, on four sub-cores.

A warp walks a *trace*: stretches of the code one after the other, so that no branch is ever evaluated.
It may issue when its last instruction's stall count has passed, the scoreboards that it waits for are free,
and its pipe takes another instruction; a sub-core issues one instruction a cycle.
Time is a real number of cycles, and goes from issue to issue: nothing happens in between.

Fixed latencies are the compiler's (stall counts). What has no fixed latency releases a scoreboard here.
A warpgroup's tile product starts when its four warps have issued it and the tensor cores are free, and runs on beside
them: it reads operands from shared memory, and takes the register port of its sub-cores in bursts.
Between bursts an instruction may issue; a long row of instructions without a gap holds the bursts up instead.
Of warps that could issue at the same time, the one that has waited longest does.
"""

from functools import partial
from typing import NamedTuple

import numpy as np

from .compiled import compiled, inlined

# What an instruction is; LOAD and COPY come from beyond L1, BULK is a copy by TMA, announced by EXPECT.
PLAIN, SHARED, LOAD, COPY, COPY_COMMIT, COPY_WAIT, MATMUL, MATMUL_WAIT, BARRIER, EXPECT, BULK, BULK_WAIT = range(12)
# Integer columns of an instruction. ARGUMENT: groups left pending (waits), whether it commits (MATMUL), or a barrier's
# number plus 16 times the warps that it waits for (0: all), negative where the warp itself does not wait.
KIND, PIPE, STALL, WRITES, READS, WAITS, ARGUMENT = range(7)
# Real columns: cycles that its sub-core's pipe is taken; from issue to result; from issue to operands read; cycles of
# shared memory; of the tensor cores; of the register port (of a product: at full speed).
INTERVAL, LATENCY, READ, SMEM, TENSOR, PORT = range(6)
# Pipes of a sub-core. NO_PIPE never makes anybody wait.
NO_PIPE, FMA, HEAVY, ALU, MUFU, HALF, TENSOR_PIPE, UNIFORM, LSU, FP64 = range(10)
PIPES = 10
# Why a warp did not issue.
FIXED, SCOREBOARD, COPIES, MATMULS, QUEUE, AT_BARRIER, BUSY_PIPE, NOT_SELECTED, PORT_BUSY = range(9)
REASONS = 9
SUB_CORES = 4
GROUP = 4
SCOREBOARDS = 6
RING = 64
QUEUED = 1024
BARRIERS = 16
# Columns of `log`.
LOG_SLOT, LOG_MARK, LOG_TIME = range(3)
START, EXIT = -1, -2


class Latencies(NamedTuple):
    """Latencies that belong to no single instruction [cycles].

    Args:
        copy, bulk: of data from beyond L1, and of bulk copies (TMA); fill: by how much slower they come than shared
            memory takes them.
        arrival, barrier: a barrier takes in arrivals one after the other, so long each, and releases its warps so long
            after the last.
        matmul_wait: from the end of a tile product to the release of who waits for it.
        matmul_queue: products that a warpgroup may have issued and not started.
        burst, period: a tensor core under wgmma takes the register port in bursts, so long and so often;
        run: after so many instructions of a warp without a gap, bursts wait.
        dispatch: from a CTA's end to the next one's start.
    """

    copy: float
    bulk: float
    fill: float
    arrival: float
    barrier: float
    matmul_wait: float
    matmul_queue: int
    burst: float
    period: float
    run: int
    dispatch: float


@inlined
def _ready(
    warp: int,
    code: np.ndarray,
    pc: np.ndarray,
    earliest: np.ndarray,
    boards: np.ndarray,
    committed: np.ndarray,
    commits: np.ndarray,
    issued: np.ndarray,
    started: np.ndarray,
    finished: np.ndarray,
    product_commits: np.ndarray,
    product_times: np.ndarray,
    group: int,
    latencies: Latencies,
    why: np.ndarray,
    blamed: np.ndarray,
) -> float:
    """When a warp's next instruction may issue as far as the warp itself goes; infinity while nobody knows."""
    i = pc[warp]
    time = earliest[warp]
    reason, setter = why[warp, 1], -1
    mask = code[i, WAITS]
    if mask:
        for board in range(SCOREBOARDS):
            if mask >> board & 1 and boards[warp, board, 0] > time:
                time = boards[warp, board, 0]
                reason, setter = SCOREBOARD, int(boards[warp, board, 1])
    kind = code[i, KIND]
    if kind == COPY_WAIT:
        number = commits[warp] - code[i, ARGUMENT]
        if number > 0 and committed[warp, (number - 1) % RING] > time:
            time = committed[warp, (number - 1) % RING]
            reason = COPIES
    elif kind == MATMUL_WAIT:
        number = product_commits[warp, RING] - code[i, ARGUMENT]
        if number > 0:
            product = product_commits[warp, (number - 1) % RING]
            if product > finished[group]:
                time = np.inf
                reason = MATMULS
            elif product > 0:
                end = product_times[group, (product - 1) % RING, 1] + latencies.matmul_wait
                if end > time:
                    time = end
                    reason = MATMULS
    elif kind == MATMUL:
        before = issued[warp] - latencies.matmul_queue
        if before >= 0:
            if before >= started[group]:
                time = np.inf
                reason = QUEUE
            elif product_times[group, before % RING, 0] > time:
                time = product_times[group, before % RING, 0]
                reason = QUEUE
    why[warp, 0] = reason
    blamed[warp] = setter
    return time


@inlined
def _port_time(time: float, issue_free: float, due: float, burst: float, period: float) -> float:
    """When an instruction that is ready at some time finds the register port free of the tensor core's bursts.

    A burst begins when it is due and no instruction is ready; an instruction waits for the end of a burst only.
    """
    if time <= due:
        return time
    begun = due + np.floor((time - due) / period) * period
    return max(time, begun + burst)


@partial(compiled, _nrt=True)
def simulate_sm(
    code: np.ndarray,
    rates: np.ndarray,
    trace: np.ndarray,
    roles: np.ndarray,
    latencies: Latencies,
    offsets: np.ndarray,
    rounds: int,
    log: np.ndarray,
    counts: np.ndarray,
    stalls: np.ndarray,
    blames: np.ndarray,
    pipe_cycles: np.ndarray,
) -> int:
    """Run CTAs on an SM until every slot has finished so many.

    Args:
        code: int64 (instructions, 7), rates: float64 (instructions, 6), with the columns above;
        trace: int64 (stretches, 3): first instruction, one past the last, mark to log (or -1);
        roles: int64 (warps of a CTA, 2): the stretches that a warp walks;
        offsets: float64 (slots,): when each slot's first CTA starts [cycles]; rounds: CTAs of each slot;
        log: float64 (events, 3), filled with slot, mark and time whenever a slot's first warp enters a marked stretch,
            a CTA starts (START) or ends (EXIT);
        counts: int64 (instructions,), issues; stalls: float64 (instructions, REASONS), cycles that warps waited there;
        blames: float64 (instructions,), cycles that others waited for the scoreboard that it set;
        pipe_cycles: float64 (PIPES + 3,): busy cycles of each pipe, summed over sub-cores, then of the tensor cores
            under wgmma, of shared memory, and issue slots.

    Returns:
        Entries of the log.
    """
    slots, width = len(offsets), len(roles)
    warps = slots * width
    groups_per_cta = (width + GROUP - 1) // GROUP
    groups = slots * groups_per_cta
    # Warps: where they are, when they may issue, what they wait for.
    pc = np.zeros(warps, np.int64)
    place = np.full(warps, -1, np.int64)
    earliest = np.zeros(warps)
    ready = np.full(warps, np.inf)
    last_issue = np.zeros(warps)
    why = np.zeros((warps, 2), np.int64)
    blamed = np.zeros(warps, np.int64)
    boards = np.zeros((warps, SCOREBOARDS, 2))
    pending_copy = np.zeros(warps)
    committed = np.zeros((warps, RING))
    commits = np.zeros(warps, np.int64)
    issued = np.zeros(warps, np.int64)
    product_commits = np.zeros((warps, RING + 1), np.int64)
    at_barrier = np.full(warps, -1, np.int64)
    # Warpgroups and CTAs.
    started = np.zeros(groups, np.int64)
    finished = np.zeros(groups, np.int64)
    product_times = np.zeros((groups, RING, 2))
    joined = np.zeros((groups, RING), np.int64)
    expected_bulks = np.zeros(slots, np.int64)
    bulk_done = np.zeros((slots, RING))
    waited_bulks = np.zeros(warps, np.int64)
    arrived = np.zeros((slots, BARRIERS), np.int64)
    released = np.zeros((slots, BARRIERS))
    running = np.zeros(slots, np.int64)
    done = np.zeros(slots, np.int64)
    age = np.zeros(slots, np.int64)
    wake = np.zeros(slots, np.int64)
    starting = offsets.copy()
    to_start = slots
    # Sub-cores.
    pipe_free = np.zeros((SUB_CORES, PIPES))
    issue_free = np.zeros(SUB_CORES)
    latest = np.full(SUB_CORES, -1, np.int64)
    best_time = np.zeros(SUB_CORES)
    best_warp = np.full(SUB_CORES, -1, np.int64)
    dirty = np.ones(SUB_CORES, np.int64)
    members = np.zeros((SUB_CORES, warps), np.int64)
    member_count = np.zeros(SUB_CORES, np.int64)
    for warp in range(warps):
        core = warp % SUB_CORES
        members[core, member_count[core]] = warp
        member_count[core] += 1
    # Products that all their warps have issued, in order; the one at `head` runs while `multiplying`.
    queued = np.zeros((QUEUED, 3), np.int64)
    head = tail = 0
    multiplying = False
    product_end = np.zeros(SUB_CORES)
    burst_due = np.zeros(SUB_CORES)
    run = np.zeros(SUB_CORES, np.int64)
    burst = period = latencies.period
    smem_free = copy_from = copy_free = smem_share = 0.0
    logged = dispatched = 0
    left = slots
    clock = 0.0
    while left > 0:
        while to_start > 0:
            slot = int(np.argmin(starting))
            begin = starting[slot]
            starting[slot] = np.inf
            to_start -= 1
            age[slot] = dispatched
            dispatched += 1
            running[slot] = width
            if logged < len(log):
                log[logged, LOG_SLOT], log[logged, LOG_MARK], log[logged, LOG_TIME] = slot, START, begin
                logged += 1
            arrived[slot] = 0
            released[slot] = 0.0
            expected_bulks[slot] = 0
            for group in range(slot * groups_per_cta, (slot + 1) * groups_per_cta):
                started[group] = finished[group] = 0
                joined[group] = 0
            for member in range(width):
                warp = slot * width + member
                place[warp] = roles[member, 0]
                pc[warp] = trace[place[warp], 0]
                earliest[warp] = last_issue[warp] = begin
                why[warp, 1] = FIXED
                at_barrier[warp] = -1
                commits[warp] = issued[warp] = waited_bulks[warp] = 0
                pending_copy[warp] = 0.0
                product_commits[warp] = 0
                boards[warp] = 0.0
                if member == 0 and trace[place[warp], 2] >= 0 and logged < len(log):
                    log[logged, LOG_SLOT], log[logged, LOG_MARK] = slot, trace[place[warp], 2]
                    log[logged, LOG_TIME] = begin
                    logged += 1
            wake[slot] = 1
        if not multiplying and head < tail:
            # The next product begins; it lasts longer where shared memory cannot bring its operands in time.
            group, number, i = queued[head % QUEUED, 0], queued[head % QUEUED, 1], queued[head % QUEUED, 2]
            smem = rates[i, SMEM]
            copying = max(0.0, min(clock + 2.0 * smem, copy_free) - max(clock, copy_from))
            length = max(rates[i, TENSOR], smem + copying / 2.0 + min(smem, max(0.0, smem_free - clock)))
            smem_share = smem / length
            burst = latencies.burst
            period = latencies.period * length / rates[i, PORT]
            for core in range(SUB_CORES):
                product_end[core] = clock + length
                burst_due[core] = max(burst_due[core], clock)
            multiplying = True
            product_times[group, number % RING, 0] = clock
            started[group] = number + 1
            pipe_cycles[PIPES] += rates[i, TENSOR]
            pipe_cycles[PIPES + 1] += smem
            wake[group // groups_per_cta] = 1
            dirty[:] = 1
        for slot in range(slots):
            if wake[slot]:
                wake[slot] = 0
                dirty[:] = 1
                for warp in range(slot * width, (slot + 1) * width):
                    if place[warp] >= 0:
                        ready[warp] = _ready(
                            warp, code, pc, earliest, boards, committed, commits, issued, started, finished,
                            product_commits, product_times, slot * groups_per_cta + (warp - slot * width) // GROUP,
                            latencies, why, blamed,
                        )  # fmt: skip
        for core in range(SUB_CORES):
            if dirty[core] == 0:
                continue
            dirty[core] = 0
            chosen, when = -1, np.inf
            beside = multiplying and product_end[core] > clock
            for k in range(member_count[core]):
                warp = members[core, k]
                time = ready[warp]
                if time == np.inf:
                    continue
                i = pc[warp]
                time = max(time, issue_free[core], pipe_free[core, code[i, PIPE]])
                if beside and time < product_end[core] and rates[pc[warp], PORT] > 0.0:
                    if warp != latest[core] or time > issue_free[core]:
                        time = _port_time(time, issue_free[core], burst_due[core], burst, period)
                    elif run[core] < latencies.run:
                        time = _port_time(time + 1e-3, issue_free[core], burst_due[core], burst, period)
                if time < when or (time == when and last_issue[warp] < last_issue[chosen]):
                    chosen, when = warp, time
            best_warp[core], best_time[core] = chosen, when
        core = int(np.argmin(best_time))
        if multiplying and product_end.max() <= best_time[core]:
            clock = product_end.max()
            group, number = queued[head % QUEUED, 0], queued[head % QUEUED, 1]
            product_times[group, number % RING, 1] = clock
            finished[group] = number + 1
            head += 1
            multiplying = False
            wake[group // groups_per_cta] = 1
            dirty[:] = 1
            continue
        warp = best_warp[core]
        if warp < 0:
            return -1 - logged
        now = clock = best_time[core]
        dirty[core] = 1
        before = latest[core]
        latest[core] = warp
        slot = warp // width
        member = warp - slot * width
        group = slot * groups_per_cta + member // GROUP
        i = pc[warp]
        kind, pipe, argument = code[i, KIND], code[i, PIPE], code[i, ARGUMENT]
        # Why it took so long since the warp's last instruction.
        counts[i] += 1
        fixed = min(earliest[warp], now)
        stalls[i, why[warp, 1]] += max(0.0, fixed - last_issue[warp] - 1.0)
        own = min(ready[warp], now)
        if own > fixed:
            stalls[i, why[warp, 0]] += own - fixed
            if blamed[warp] >= 0:
                blames[blamed[warp]] += own - fixed
        free = min(now, max(own, pipe_free[core, pipe]))
        stalls[i, BUSY_PIPE] += free - own
        taken = min(now, max(free, issue_free[core]))
        stalls[i, NOT_SELECTED] += taken - free
        stalls[i, PORT_BUSY] += now - taken
        # Issue.
        issue_before = issue_free[core]
        issue_free[core] = now + 1.0
        pipe_cycles[PIPES + 2] += 1.0
        port = rates[i, PORT]
        interval = rates[i, INTERVAL]
        if port > 0.0 and kind != MATMUL:
            if warp == before and free <= issue_before:
                run[core] += 1
            else:
                run[core] = 1
        if port > 0.0 and kind != MATMUL and multiplying and now < product_end[core]:
            # Bursts that have begun by now are over; the next one waits for this instruction.
            due = burst_due[core]
            if now > due:
                due += np.ceil((now - due) / period) * period
            after = now + port
            if after > due:
                product_end[core] += after - due
                due = after
            burst_due[core] = due
            if pipe == MUFU:
                # A quarter of the lanes at a time: the later half of the operands is read on its own.
                half = now + interval / 2.0
                interval += _port_time(half, half, burst_due[core], burst, period) - half
        if pipe != NO_PIPE:
            pipe_free[core, pipe] = now + interval
            pipe_cycles[pipe] += interval
        earliest[warp] = now + code[i, STALL]
        last_issue[warp] = now
        why[warp, 1] = FIXED
        finish = now + rates[i, LATENCY]
        read = now + rates[i, READ]
        smem = rates[i, SMEM]
        if kind == EXPECT and member == 0:
            expected_bulks[slot] += 1
            bulk_done[slot, expected_bulks[slot] % RING] = now
        elif kind == BULK and member == 0:
            arrival = now + latencies.bulk
            if arrival > copy_free:
                copy_from = copy_free = arrival
            copy_free += smem * latencies.fill
            pipe_cycles[PIPES + 1] += smem
            number = expected_bulks[slot] % RING
            bulk_done[slot, number] = max(bulk_done[slot, number], copy_free)
        elif kind == BULK_WAIT:
            # The waits of a warp are for the announced copies, one after the other; those not announced yet it passes.
            waited_bulks[warp] += 1
            if waited_bulks[warp] <= expected_bulks[slot]:
                finish = max(finish, bulk_done[slot, waited_bulks[warp] % RING])
        if kind == SHARED:
            # Beside a product that reads its operands, shared memory serves the others more slowly, but half at least.
            if multiplying:
                smem /= 1.0 - min(smem_share, 0.5)
            begin = max(now, smem_free)
            smem_free = begin + smem
            pipe_cycles[PIPES + 1] += rates[i, SMEM]
            finish += smem_free - now
            read += begin - now
        elif kind in (LOAD, COPY):
            # Data come one after the other, and are written in the gaps that others leave.
            arrival = now + latencies.copy
            if arrival > copy_free:
                copy_from = copy_free = arrival
            copy_free += smem * latencies.fill
            pipe_cycles[PIPES + 1] += smem
            finish = copy_free
            if kind == COPY:
                pending_copy[warp] = max(pending_copy[warp], finish)
        elif kind == COPY_COMMIT:
            finish = max(finish, pending_copy[warp])
            committed[warp, commits[warp] % RING] = finish
            commits[warp] += 1
        elif kind == MATMUL:
            number = issued[warp]
            issued[warp] += 1
            if argument:
                commit = product_commits[warp, RING]
                product_commits[warp, commit % RING] = number + 1
                product_commits[warp, RING] = commit + 1
            joined[group, number % RING] += 1
            if joined[group, number % RING] == min(GROUP, width):
                joined[group, number % RING] = 0
                queued[tail % QUEUED] = group, number, i
                tail += 1
        elif kind == BARRIER:
            alone = argument < 0
            if alone:
                argument = -argument - 1
            barrier, expected = argument % BARRIERS, argument // BARRIERS
            if expected == 0:
                expected = running[slot]
            arrived[slot, barrier] += 1
            released[slot, barrier] = max(now, released[slot, barrier]) + latencies.arrival
            if not alone:
                at_barrier[warp] = barrier
                earliest[warp] = np.inf
            why[warp, 1] = AT_BARRIER
            if arrived[slot, barrier] >= expected:
                arrived[slot, barrier] = 0
                for other in range(slot * width, (slot + 1) * width):
                    if at_barrier[other] == barrier:
                        at_barrier[other] = -1
                        earliest[other] = released[slot, barrier] + latencies.barrier
                wake[slot] = 1
        board = code[i, WRITES]
        if board >= 0 and finish > boards[warp, board, 0]:
            boards[warp, board, 0] = finish
            boards[warp, board, 1] = i
        board = code[i, READS]
        if board >= 0 and read > boards[warp, board, 0]:
            boards[warp, board, 0] = read
            boards[warp, board, 1] = i
        # Go on.
        pc[warp] += 1
        if pc[warp] == trace[place[warp], 1]:
            place[warp] += 1
            if place[warp] == roles[member, 1]:
                ready[warp] = np.inf
                place[warp] = -1
                running[slot] -= 1
                if running[slot] == 0:
                    if logged < len(log):
                        log[logged, LOG_SLOT], log[logged, LOG_MARK], log[logged, LOG_TIME] = slot, EXIT, now
                        logged += 1
                    done[slot] += 1
                    if done[slot] == rounds:
                        left -= 1
                    starting[slot] = now + latencies.dispatch
                    to_start += 1
                continue
            pc[warp] = trace[place[warp], 0]
            if member == 0 and trace[place[warp], 2] >= 0 and logged < len(log):
                log[logged, LOG_SLOT], log[logged, LOG_MARK] = slot, trace[place[warp], 2]
                log[logged, LOG_TIME] = now
                logged += 1
        ready[warp] = _ready(
            warp, code, pc, earliest, boards, committed, commits, issued, started, finished, product_commits,
            product_times, group, latencies, why, blamed,
        )  # fmt: skip
    return logged
