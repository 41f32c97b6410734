"""Tables of the simulation of an SM: what an instruction is, and the state of warps, CTAs, pipes and memory."""

from typing import NamedTuple

import numpy as np

# What an instruction is; LOAD and COPY come from beyond L1, WRITE holds up the way there; AGAIN is a load of what its
# warp has loaded, which L1 has or which is under way. BULK is a copy by TMA,
# announced by EXPECT; BULK_WAIT waits for those, or for an ARRIVE. BULK_WRITE is one to L2; FLUSH commits those
# before it, as COPY_COMMIT does copies, until they have left shared memory.
PLAIN, SHARED, LOAD, COPY, COPY_COMMIT, COPY_WAIT, MATMUL, MATMUL_WAIT, BARRIER = range(9)
EXPECT, BULK, BULK_WAIT, ARRIVE, WRITE, BULK_WRITE, FLUSH, AGAIN = range(9, 17)
# Integer columns of an instruction. ARGUMENT: groups left pending (waits), whether it commits (MATMUL), whether it
# stores (SHARED), or a barrier's number plus 16 times the warps that it waits for (0: all), negative where the warp
# itself does not wait.
# Of mbarriers: its channel, plus 16 times the copies announced (EXPECT) or the phases passed freely (BULK_WAIT);
# a wait whose argument is negative, - 1 - channel, is for the copies announced so far, and passes what is not.
# LEADER: the warp that does it for its CTA (EXPECT, BULK, ARRIVE, BULK_WRITE, FLUSH).
KIND, PIPE, STALL, WRITES, READS, WAITS, ARGUMENT, LEADER = range(8)
COLUMNS = LEADER + 1
# Real columns: cycles that its sub-core's pipe is taken; from issue to result; from issue to operands read; cycles of
# shared memory (of a LOAD: lines that are fetched); of the tensor cores (of a WRITE: lines that may wait to leave the
# SM before it; of LOAD and COPY: of L1's tags, and of a LOAD of shared memory); of the register port (of a product: at
# full speed); products that end before it is through shared memory where they take all of it.
INTERVAL, LATENCY, READ, SMEM, TENSOR, PORT, PASSES = range(7)
WAITING = TAGS = TENSOR
RATES = PASSES + 1
# Pipes of a sub-core. NO_PIPE never makes anybody wait.
NO_PIPE, FMA, HEAVY, ALU, MUFU, HALF, TENSOR_PIPE, UNIFORM, LSU, FP64 = range(10)
PIPES = FP64 + 1
# Beyond them in `State.used`: tensor cores under wgmma, shared memory, issue slots; lines of spilled registers that
# come from L2 (LOAD with an ARGUMENT), and that go there (WRITE with one); how often products begin after a pause in
# which the clock has risen, and for how long it had.
PRODUCTS, SHARED_MEMORY, SLOTS, FETCHED, SPILLED, RESTARTS, RESTED = range(PIPES, PIPES + 7)
USES = RESTED + 1
# Why a warp did not issue.
FIXED, SCOREBOARD, COPIES, MATMULS, QUEUE, AT_BARRIER, BUSY_PIPE, NOT_SELECTED, PORT_BUSY = range(9)
REASONS = PORT_BUSY + 1
SUB_CORES = 4
"""Of an SM, each with warps of its own (whitepapers of all architectures from Volta to Blackwell)."""
GROUP = 4
"""Warps of a warpgroup (PTX ISA, wgmma)."""
SCOREBOARDS = 6
"""Of a warp: as many as the control bits of an instruction can name (`sass.decode`)."""
RING = 64
"""Products, copies and phases of an mbarrier whose times are kept: far more than are ever waited for at once."""
QUEUED = 1024
"""Products of an SM that have been issued and are not done: far more than its warps may have."""
BARRIERS = CHANNELS = 16
"""Named barriers of a CTA (PTX ISA, bar); rings of mbarriers that are followed: as many, by choice."""
LSU_RING = 64
"""Memory instructions of a sub-core whose times are kept: a power of two above any queue in front of L1."""
# Columns of `log`.
LOG_SLOT, LOG_MARK, LOG_TIME = range(3)
START, EXIT = -1, -2
"""Marks of the log that are no region."""
# Elements of `State.links`: shared memory is free; data come from beyond L1 until; the share of shared memory
# that the running product takes; the time; the share of the register port that it leaves; the way out to L2 is free;
# cycles of shared memory that copies and loads took; what was stored, or copied, is written; L1's tags are free; cycles
# of the running product; the last product's end; how long what waits to
# leave may take [cycles], infinity after a bulk store.
SMEM_FREE, COPY_FREE, SMEM_SHARE, CLOCK, PORT_LEFT, OUT_FREE, COPIED, WRITTEN, TAGS_FREE, LENGTH, LAST, ROOM = range(12)
LINKS = ROOM + 1
# Elements of `State.queue`: the product that runs next or now, one past the last, whether one runs; entries of the log;
# warps that have begun.
HEAD, TAIL, MULTIPLYING, LOGGED, BEGUN = range(5)


class Latencies(NamedTuple):
    """Latencies that belong to no single instruction [cycles].

    Args:
        load, copy, bulk: of data from beyond L1, to registers, by LDGSTS and by TMA; fill: by how much slower they
            come than shared memory takes them; out: the same for what is written to L2; turn: how much later than what
            was written before has left a bulk copy sets out.
        arrival, barrier: a barrier takes in arrivals one after the other, so long each, and releases its warps so long
            after the last.
        matmul_wait: from the end of a tile product to the release of who waits for it.
        matmul_queue: products that a warpgroup may have issued and not started.
        port, slack: a tensor core under wgmma takes that share of the register port, and can wait for so many
            instructions; run: after so many of a warp without a gap, it waits for all, held_up times as long as
            they take.
        dispatch: from a CTA's end to the next one's start.
        rest: after so long without products the clock rises.
        jitter: by which part of its length a product lasts longer or shorter at most, all in between alike often.
        short_rest: what a restart costs after a pause in which the clock has only just risen, of one full_rest later.
        lsu_queue: memory instructions of a sub-core that wait in front of L1, in order; less than `LSU_RING`.
        most_taken: share of shared memory that products take from others at most; taken_from_reads: at least, where
            others read; takes_all: from which on the others go when a product ends, and each line holds one up
            line_holds cycles.
        copy_turn: of LDGSTS, its turn in cycles for one of its data, which are written when nobody stores.
    """

    load: float
    copy: float
    bulk: float
    fill: float
    out: float
    turn: float
    arrival: float
    barrier: float
    matmul_wait: float
    matmul_queue: int
    port: float
    slack: float
    held_up: float
    run: int
    dispatch: float
    rest: float
    jitter: float
    short_rest: float
    full_rest: float
    lsu_queue: int
    most_taken: float
    taken_from_reads: float
    takes_all: float
    line_holds: float
    copy_turn: float


class State(NamedTuple):
    """Where everything stands; arrays by warp, warpgroup (of all slots), slot, or sub-core.

    Warps: place: stretch, -1: none; pc; earliest: by stall counts and barriers; ready: when it may issue, infinity:
    nobody knows; age: warps that began before it; why: reasons for those two; blamed: who set the scoreboard;
    boards: when they are free, and who set them; fetched: when what was loaded is there;
    pending, committed, commits: copies;
    issued, product_commits: products; at_barrier; waited: on each channel.
    Groups: started, finished: products; times of both; joined: warps that have issued a product.
    Slots: announced, complete, coming, channel_time: mbarriers; channel: the last announced on;
    arrived, released: barriers; running: warps; done: CTAs; wake: whether its warps' times have to be looked at;
    starting: when the next CTA starts.
    Sub-cores: pipe_free, issue_free, latest: warp, run: its instructions without a gap; best_time, best_warp, dirty;
    members: its warps; gone: when its last memory instructions were through the queue in front of L1, sent: how many;
    product_end; credit: instructions that the running product can wait for, at credit_time.
    Then: queued products; links and queue: see above.
    What comes out: log, counts, stalls, blames, used.
    """

    place: np.ndarray
    pc: np.ndarray
    earliest: np.ndarray
    ready: np.ndarray
    age: np.ndarray
    last_issue: np.ndarray
    why: np.ndarray
    blamed: np.ndarray
    boards: np.ndarray
    fetched: np.ndarray
    pending: np.ndarray
    committed: np.ndarray
    commits: np.ndarray
    issued: np.ndarray
    product_commits: np.ndarray
    at_barrier: np.ndarray
    waited: np.ndarray
    started: np.ndarray
    finished: np.ndarray
    times: np.ndarray
    joined: np.ndarray
    announced: np.ndarray
    complete: np.ndarray
    coming: np.ndarray
    channel_time: np.ndarray
    channel: np.ndarray
    arrived: np.ndarray
    released: np.ndarray
    running: np.ndarray
    done: np.ndarray
    wake: np.ndarray
    starting: np.ndarray
    pipe_free: np.ndarray
    issue_free: np.ndarray
    latest: np.ndarray
    run: np.ndarray
    best_time: np.ndarray
    best_warp: np.ndarray
    dirty: np.ndarray
    members: np.ndarray
    gone: np.ndarray
    sent: np.ndarray
    product_end: np.ndarray
    credit: np.ndarray
    credit_time: np.ndarray
    queued: np.ndarray
    links: np.ndarray
    queue: np.ndarray
    log: np.ndarray
    counts: np.ndarray
    stalls: np.ndarray
    blames: np.ndarray
    used: np.ndarray


def new_state(instructions: int, warps_per_cta: int, offsets: np.ndarray, log_entries: int) -> State:
    """An SM before its first CTA. Args: offsets: float64 (slots,), when each slot's first CTA starts [cycles]."""
    slots = len(offsets)
    warps = slots * warps_per_cta
    groups = slots * -(-warps_per_cta // GROUP)
    members = np.full((SUB_CORES, -(-warps // SUB_CORES)), -1, dtype=np.int64)
    for warp in range(warps):
        members[warp % SUB_CORES, warp // SUB_CORES] = warp

    def whole(*shape: int) -> np.ndarray:
        return np.zeros(shape, dtype=np.int64)

    return State(
        place=whole(warps) - 1,
        pc=whole(warps),
        earliest=np.zeros(warps),
        ready=np.full(warps, np.inf),
        age=whole(warps),
        last_issue=np.zeros(warps),
        why=whole(warps, 2),
        blamed=whole(warps),
        boards=np.zeros((warps, SCOREBOARDS, 2)),
        fetched=np.zeros(warps),
        pending=np.zeros(warps),
        committed=np.zeros((warps, RING)),
        commits=whole(warps),
        issued=whole(warps),
        product_commits=whole(warps, RING + 1),
        at_barrier=whole(warps) - 1,
        waited=whole(warps, CHANNELS),
        started=whole(groups),
        finished=whole(groups),
        times=np.zeros((groups, RING, 2)),
        joined=whole(groups, RING),
        announced=whole(slots, CHANNELS),
        complete=whole(slots, CHANNELS),
        coming=whole(slots, CHANNELS),
        channel_time=np.zeros((slots, CHANNELS, RING)),
        channel=whole(slots),
        arrived=whole(slots, BARRIERS),
        released=np.zeros((slots, BARRIERS)),
        running=whole(slots),
        done=whole(slots),
        wake=whole(slots),
        starting=np.array(offsets, dtype=np.float64),
        pipe_free=np.zeros((SUB_CORES, PIPES)),
        issue_free=np.zeros(SUB_CORES),
        latest=whole(SUB_CORES) - 1,
        run=whole(SUB_CORES),
        best_time=np.zeros(SUB_CORES),
        best_warp=whole(SUB_CORES) - 1,
        dirty=whole(SUB_CORES) + 1,
        members=members,
        gone=np.zeros((SUB_CORES, LSU_RING)),
        sent=whole(SUB_CORES),
        product_end=np.zeros(SUB_CORES),
        credit=np.zeros(SUB_CORES),
        credit_time=np.zeros(SUB_CORES),
        queued=whole(QUEUED, 3),
        links=np.zeros(LINKS),
        queue=whole(5),
        log=np.zeros((log_entries, 3)),
        counts=whole(instructions),
        stalls=np.zeros((instructions, REASONS)),
        blames=np.zeros(instructions),
        used=np.zeros(USES),
    )
