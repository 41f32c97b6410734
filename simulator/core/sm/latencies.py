"""Latencies and rates of an SM that belong to no single instruction; `sm.machine` fills them in for a device."""

from typing import NamedTuple


class Latencies(NamedTuple):
    """Latencies and rates of an SM that belong to no single instruction. In cycles, unless another unit is named.

    Args:
        load: of a load from beyond L1 to registers.
        copy: of LDGSTS.
        bulk_copy: of a TMA load.
        atomic: of what an atomic gives back, once it has left the SM.
        fill_per_line: shared memory takes each line that arrives from L2 for a cycle; the line itself takes so long.
        store_per_line: each line takes so long on its way out to L2.
        copy_after_store: a TMA load sets out so much later than the stores before it have left.
        barrier_arrival: of each warp at a barrier; arrivals of an SM are serialised.
        barrier_release: from the last arrival to the release.
        matmul_release: from the end of a matmul to the release of a warp that waits for it.
        matmul_queue: matmuls that a warpgroup may have issued and not started.
        port_share: share of its sub-core's register port that a tensor core takes under wgmma.
        port_credit: reads by others, beyond the share that it leaves, before wgmma takes longer.
        port_wait: that an instruction waits for the port beside wgmma.
        pipe_turns: 1: warps take turns at a busy pipe; 0: the one that issued last goes on there, too.
        replacement: from a CTA's end to the start of the next one in its place.
        clock_rest: idle time of the tensor cores after which the clock rises.
        matmul_jitter: largest deviation of a matmul from its length, as a share of it; uniformly distributed.
        short_restart: cost of a matmul after a pause in which the clock has only just risen, as a share of a whole one.
        full_restart: pause beyond `clock_rest` after which it costs a whole one.
        lsu_queue: memory instructions of a sub-core that wait in front of L1, in order; less than `LSU_RING`.
        matmul_smem_most: share of shared memory that a matmul takes from others, at most.
        matmul_smem_from_reads: the same at least, where others read.
        matmul_smem_all: share from which on others wait for the matmul's end.
        line_hold: by which each of their lines then delays the matmuls.
        copy_turn: of LDGSTS at shared memory, for each line that it writes there; the line itself is written when
            nobody stores.
        fetch_core_lines, fetch_sm_lines: of code, that the instruction caches of a sub-core and of the SM hold.
        fetch_turn: from one warp of a sub-core that is given a line to the next.
        fetch_from_sm, fetch_from_l2: until a line is there.
        fetch_l2_line: from one line that comes from L2 to the next.
    """

    load: float
    copy: float
    bulk_copy: float
    atomic: float
    fill_per_line: float
    store_per_line: float
    copy_after_store: float
    barrier_arrival: float
    barrier_release: float
    matmul_release: float
    matmul_queue: int
    port_share: float
    port_credit: float
    port_wait: float
    pipe_turns: int
    replacement: float
    clock_rest: float
    matmul_jitter: float
    short_restart: float
    full_restart: float
    lsu_queue: int
    matmul_smem_most: float
    matmul_smem_from_reads: float
    matmul_smem_all: float
    line_hold: float
    copy_turn: float
    fetch_core_lines: float
    fetch_sm_lines: float
    fetch_turn: float
    fetch_from_sm: float
    fetch_from_l2: float
    fetch_l2_line: float
