"""The state of a simulated SM: its warps, warpgroups, CTA slots, sub-cores, and what all of them share.

All times are SM clock cycles from the begin of the run.
"""

from typing import NamedTuple

import numpy as np

from ...limits import SCOREBOARDS, SUB_CORES, WARPGROUP_WARPS
from .instruction import BARRIERS, CHANNELS, PIPES

RING = 64
"""Matmuls, copies and phases of an mbarrier whose times are kept: far more than are ever waited for at once."""
QUEUED = 1024
"""Matmuls of an SM that have been issued and are not done: far more than its warps may have."""
LSU_RING = 64
"""Memory instructions of a sub-core whose times are kept: a power of two above any queue in front of L1."""
FETCH_SETS = 16
"""Of an instruction cache: with these, a loop of two lines more than a sub-core's holds misses 34. One warp of an H200
issues 0.86 instructions a cycle in a loop of 32 KB, as if it missed 30, 0.42 in 40 KB (`instruction_fetch.cu`)."""

# Columns of `State.log`, and its marks that are no region of the code.
LOG_SLOT, LOG_MARK, LOG_TIME = range(3)
START, EXIT = -1, -2
"""A CTA begins; it ends."""

# Elements of `State.used`: busy cycles of each pipe, summed over sub-cores; and behind those of the pipes:
MATMULS, SHARED_MEMORY, SLOTS, RELOADED, SPILLED, RESTARTS, RESTED, CONSTANTS = range(PIPES, PIPES + 8)
"""Cycles of the tensor cores under wgmma, and of shared memory; issue slots; lines of spilled registers that come from
L2, and that go there; how often matmuls begin after a pause in which the clock has risen, and for how long it had;
cycles of the cache of constants that a register indexes."""
USES = CONSTANTS + 1

# Why a warp did not issue, as columns of `State.stalls` (`sm.stall_reasons` has their names).
FIXED, SCOREBOARD, COPIES, MATMUL_END, MATMUL_QUEUE, AT_BARRIER, BUSY_PIPE, NOT_SELECTED, PORT_BUSY, FETCH = range(10)
REASONS = FETCH + 1


SHARED_STATE = np.dtype(
    [
        ("clock", np.float64),  # now
        # Shared memory, L1 and the links to L2: free from ... on.
        ("smem_free", np.float64),
        ("tags_free", np.float64),  # L1's tags
        ("fill_free", np.float64),  # the link from L2
        ("store_free", np.float64),  # the link to L2
        ("store_room", np.float64),  # cycles of that link that may be queued behind L1; infinite after a bulk store
        ("stores_done", np.float64),  # all that was stored, or copied by LDGSTS, is in shared memory
        ("barrier_free", np.float64),  # the unit that takes arrivals at barriers
        ("constant_free", np.float64),  # the cache of constants that a register indexes
        ("filled_cycles", np.float64),  # of shared memory that loads and copies have taken so far
        # The matmul that runs.
        ("matmul_runs", np.int64),
        ("matmul_cycles", np.float64),  # its length
        ("matmul_smem_share", np.float64),  # of shared memory
        ("port_left", np.float64),  # share of the register port that it leaves
        ("tensor_end", np.float64),  # when the tensor cores last had work
        # Matmuls [queue_head, queue_tail) have been issued and have not ended.
        ("queue_head", np.int64),
        ("queue_tail", np.int64),
        ("logged", np.int64),  # entries of the log
        ("begun", np.int64),  # warps that have begun
        ("watched", np.int64),  # mark whose entries in the log are counted
        ("passed", np.int64),  # whether a slot has as many of them as are asked for
    ]
)
"""What an SM has one of."""


class State(NamedTuple):
    """Where everything stands; arrays by warp, warpgroup (of all slots), slot, or sub-core.

    Args:
        stretch: warp -> the stretch of its trace that it is in; -1: it runs nothing.
        pc: warp -> its next instruction.
        earliest: warp -> when that may issue by stall counts and barriers.
        ready: warp -> when it may issue as far as the warp itself goes; infinite: nobody knows yet.
        age: warp -> warps that began before it.
        last_issue: warp -> when it last issued.
        reasons: warp -> what `ready` waits for, and `earliest`.
        producer: warp -> the instruction whose scoreboard it waits for; -1: none.
        scoreboards: warp, scoreboard -> when it is free, and the instruction that set it.
        loaded: warp -> when all that it has loaded from beyond L1 is there.
        copied: warp -> when its copies since the last commit are there.
        group_time: warp, group modulo `RING` -> when that group of copies is there.
        groups: warp -> groups of copies that it has committed.
        issued: warp -> matmuls that it has issued.
        matmul_groups: warp, group modulo `RING` -> matmuls up to its end; last: groups that the warp has committed.
        at_barrier: warp -> barrier that it waits at; -1: none.
        met: warp, barrier -> how often it has come to it, and to others of its ring.
        waited: warp, channel -> phases that it has waited for, or arrived at where several warps do.
        started, finished: warpgroup -> matmuls.
        matmul_times: warpgroup, matmul modulo `RING` -> when it began, and ended.
        joined: warpgroup, matmul modulo `RING` -> warps that have issued it.
        announced, complete: slot, channel -> phases.
        coming: slot, channel -> bulk copies that the announced phase still lacks.
        given: slot, channel, phase modulo `RING` -> warps that have arrived, where it takes several.
        phase_time: slot, channel, phase modulo `RING` -> when it is complete.
        channel: slot -> the channel of the last announcement.
        arrived: slot, barrier -> warps.
        running: slot -> warps.
        done: slot -> CTAs.
        wake: slot -> whether what its warps wait for has changed.
        starting: slot -> when its next CTA starts; infinite while one runs.
        pipe_free: sub-core, pipe -> when it takes another instruction.
        issue_free: sub-core -> when it may issue.
        latest: sub-core -> the warp that issued last.
        read_time: sub-core -> when an instruction last read registers.
        best_time, best_warp: sub-core -> what it issues next.
        stale: sub-core -> whether that has to be looked at again.
        members: sub-core -> its warps; -1: none.
        lsu_done: sub-core, memory instruction modulo `LSU_RING` -> when it has left the queue in front of L1.
        lsu_sent: sub-core -> memory instructions.
        matmul_end: sub-core -> when its tensor core is done with the matmul that runs.
        credit: sub-core -> instructions that the matmul can put off reading for, at `credit_time`.
        line: warp -> line of the code that its next instruction lies in; -1: none yet.
        ahead: warp -> when the line behind that is there.
        fetched: instruction cache, line -> its number among those of its set; 0: it never did. The last cache is
            that of the SM, those before it the sub-cores'.
        fetch_time: instruction cache, line -> when it came.
        fetch_count: instruction cache, set -> lines that have come.
        fetch_free: instruction cache -> when it can fetch another line.
        matmul_queue: matmul modulo `QUEUED` -> warpgroup, number of it there, instruction.
        sm: one record, see `SHARED_STATE`.
        laps: slot -> entries in the log of the mark that is watched; since a slot had as many as asked for, if one did.
        log: entry -> slot, mark, time: whenever a slot's first warp enters a marked stretch, or a CTA starts or ends.
        issues: instruction -> how often it has issued.
        stalls: instruction, reason -> cycles that warps waited before it.
        awaited: instruction -> cycles that warps waited for the scoreboard that it set.
        used: see above.
    """

    stretch: np.ndarray
    pc: np.ndarray
    earliest: np.ndarray
    ready: np.ndarray
    age: np.ndarray
    last_issue: np.ndarray
    reasons: np.ndarray
    producer: np.ndarray
    scoreboards: np.ndarray
    loaded: np.ndarray
    copied: np.ndarray
    group_time: np.ndarray
    groups: np.ndarray
    issued: np.ndarray
    matmul_groups: np.ndarray
    at_barrier: np.ndarray
    met: np.ndarray
    waited: np.ndarray
    started: np.ndarray
    finished: np.ndarray
    matmul_times: np.ndarray
    joined: np.ndarray
    announced: np.ndarray
    complete: np.ndarray
    coming: np.ndarray
    given: np.ndarray
    phase_time: np.ndarray
    channel: np.ndarray
    arrived: np.ndarray
    running: np.ndarray
    done: np.ndarray
    wake: np.ndarray
    starting: np.ndarray
    pipe_free: np.ndarray
    issue_free: np.ndarray
    latest: np.ndarray
    read_time: np.ndarray
    best_time: np.ndarray
    best_warp: np.ndarray
    stale: np.ndarray
    members: np.ndarray
    lsu_done: np.ndarray
    lsu_sent: np.ndarray
    matmul_end: np.ndarray
    credit: np.ndarray
    credit_time: np.ndarray
    line: np.ndarray
    ahead: np.ndarray
    fetched: np.ndarray
    fetch_time: np.ndarray
    fetch_count: np.ndarray
    fetch_free: np.ndarray
    matmul_queue: np.ndarray
    sm: np.ndarray
    laps: np.ndarray
    log: np.ndarray
    issues: np.ndarray
    stalls: np.ndarray
    awaited: np.ndarray
    used: np.ndarray


def new_state(instructions: int, warps_per_cta: int, offsets: np.ndarray, log_entries: int) -> State:
    """An SM before its first CTA.

    Args:
        instructions: of the code.
        warps_per_cta: warps of each slot.
        offsets: float64 (slots,), when each slot's first CTA starts [cycles].
        log_entries: room of the log.
    """
    slots = len(offsets)
    warps = slots * warps_per_cta
    warpgroups = slots * -(-warps_per_cta // WARPGROUP_WARPS)
    members = np.full((SUB_CORES, -(-warps // SUB_CORES)), -1, dtype=np.int64)
    for warp in range(warps):
        members[warp % SUB_CORES, warp // SUB_CORES] = warp

    def whole(*shape: int) -> np.ndarray:
        return np.zeros(shape, dtype=np.int64)

    channels = CHANNELS + 1
    return State(
        stretch=whole(warps) - 1,
        pc=whole(warps),
        earliest=np.zeros(warps),
        ready=np.full(warps, np.inf),
        age=whole(warps),
        last_issue=np.zeros(warps),
        reasons=whole(warps, 2),
        producer=whole(warps),
        scoreboards=np.zeros((warps, SCOREBOARDS, 2)),
        loaded=np.zeros(warps),
        copied=np.zeros(warps),
        group_time=np.zeros((warps, RING)),
        groups=whole(warps),
        issued=whole(warps),
        matmul_groups=whole(warps, RING + 1),
        at_barrier=whole(warps) - 1,
        met=whole(warps, BARRIERS),
        waited=whole(warps, channels),
        started=whole(warpgroups),
        finished=whole(warpgroups),
        matmul_times=np.zeros((warpgroups, RING, 2)),
        joined=whole(warpgroups, RING),
        announced=whole(slots, channels),
        complete=whole(slots, channels),
        coming=whole(slots, channels),
        given=whole(slots, channels, RING),
        phase_time=np.zeros((slots, channels, RING)),
        channel=whole(slots),
        arrived=whole(slots, BARRIERS),
        running=whole(slots),
        done=whole(slots),
        wake=whole(slots),
        starting=np.array(offsets, dtype=np.float64),
        pipe_free=np.zeros((SUB_CORES, PIPES)),
        issue_free=np.zeros(SUB_CORES),
        latest=whole(SUB_CORES) - 1,
        read_time=np.zeros(SUB_CORES),
        best_time=np.zeros(SUB_CORES),
        best_warp=whole(SUB_CORES) - 1,
        stale=whole(SUB_CORES) + 1,
        members=members,
        lsu_done=np.zeros((SUB_CORES, LSU_RING)),
        lsu_sent=whole(SUB_CORES),
        matmul_end=np.zeros(SUB_CORES),
        credit=np.zeros(SUB_CORES),
        credit_time=np.zeros(SUB_CORES),
        line=whole(warps) - 1,
        ahead=np.zeros(warps),
        fetched=whole(SUB_CORES + 1, instructions),
        fetch_time=np.zeros((SUB_CORES + 1, instructions)),
        fetch_count=whole(SUB_CORES + 1, FETCH_SETS),
        fetch_free=np.zeros(SUB_CORES + 1),
        matmul_queue=whole(QUEUED, 3),
        sm=np.zeros(1, dtype=SHARED_STATE),
        laps=whole(slots),
        log=np.zeros((log_entries, 3)),
        issues=whole(instructions),
        stalls=np.zeros((instructions, REASONS)),
        awaited=np.zeros(instructions),
        used=np.zeros(USES),
    )
