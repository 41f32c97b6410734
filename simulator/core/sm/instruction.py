"""An instruction as the SM simulation sees it: kind, pipe, scoreboards, latencies, and the resources that it takes.

`sm.followed` makes a table of them from machine code.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

# Kinds. What needs no more than its pipe is PLAIN.
PLAIN, SHARED, LOAD, REUSED_LOAD, STORE, COPY, COPY_COMMIT, COPY_WAIT = range(8)
"""SHARED reads or writes shared memory. LOAD misses L1; REUSED_LOAD loads lines that its warp has loaded before, which
hit L1 or are in flight; STORE goes through L1 to L2. COPY is LDGSTS, from beyond L1 to shared memory;
COPY_COMMIT ends a group of copies or bulk stores, COPY_WAIT waits for groups."""
MATMUL, MATMUL_WAIT, BARRIER = range(8, 11)
"""A warpgroup's asynchronous matmul (wgmma), the wait for groups of them, and a named barrier of the CTA."""
EXPECT, BULK_COPY, MBARRIER_WAIT, ARRIVE, BULK_STORE, BULK_COMMIT = range(11, 17)
"""EXPECT announces the bulk copies (TMA loads) of a phase of an mbarrier; BULK_COPY is one of them; MBARRIER_WAIT waits
for a phase, and ARRIVE completes one that announces no copy. BULK_STORE is a TMA store to L2, BULK_COMMIT ends a group
of those."""
TENSOR_MEMORY_MATMUL, MATMUL_COMMIT = range(17, 19)
"""A matmul in tensor memory (tcgen05), which one warp issues for its CTA, and what has an mbarrier told when those that
were issued before are done."""
CONSTANT = 19
"""A load from a constant bank at places that differ by lane: the SM's cache serves one of them after the other."""

NO_PIPE, FMA, HEAVY, ALU, MUFU, HALF, TENSOR_PIPE, UNIFORM, LSU, FP64 = range(10)
"""Pipes of a sub-core. NO_PIPE never makes anybody wait."""
PIPES = FP64 + 1

BARRIERS = CHANNELS = 16
"""Named barriers of a CTA (PTX ISA, bar); rings of mbarriers (*channels*) that are followed: as many, by choice."""
MATMULS_CHANNEL = CHANNELS
"""One channel more, of matmuls in tensor memory."""


class SmInstruction(NamedTuple):
    """An instruction as the SM runs it. Fields that name kinds have a meaning for those alone.

    Args:
        kind: one of the above.
        pipe: of its sub-core.
        stall_cycles: from its issue until its warp may issue the next one.
        write_scoreboard: that is set until the result is there; -1: none.
        read_scoreboard: that is set until operands are read; -1: none.
        wait_mask: bit i says that it waits for scoreboard i.
        pending: (COPY_WAIT, MATMUL_WAIT) newest groups that need not be done.
        commits: (MATMUL) whether it ends a group.
        stores: (SHARED) whether it writes.
        spills: (LOAD, STORE) whether it is of spilled registers, in local memory.
        barrier: (BARRIER) its number.
        barrier_warps: (BARRIER) warps that have to arrive; 0: all of the CTA.
        barrier_ring: (BARRIER) barriers from that number on that it comes to one after the other.
        only_arrives: (BARRIER) whether its warp goes on without waiting: bar.arrive.
        channel: (EXPECT, MBARRIER_WAIT, ARRIVE, MATMUL_COMMIT) ring of mbarriers.
        copies: (EXPECT) bulk copies that it announces.
        free_phases: (MBARRIER_WAIT) first phases that nobody has to complete.
        in_order: (MBARRIER_WAIT) whether each wait is for the next phase announced, and over at once without one.
        arrivals: (ARRIVE) of warps, that complete a phase together.
        arriving: (ARRIVE, BARRIER) bit i says that warp i of its CTA arrives; 0: the leader alone, at a BARRIER all.
        leader: (EXPECT, BULK_COPY, ARRIVE, BULK_STORE, BULK_COMMIT, TENSOR_MEMORY_MATMUL, MATMUL_COMMIT) warp that acts
            for its CTA; -1: none.
        interval_cycles: that its sub-core's pipe is taken, or (CONSTANT) the SM's constant cache [cycles].
        fma_cycles: (a warp's matmul) that the FMA of its sub-core is taken as well [cycles].
        alu_cycles: the same of its ALU, and of the heavy half of its FMA.
        latency_cycles: from issue to result [cycles].
        operand_cycles: from issue until operands are read [cycles].
        smem_lines: lines of 128 B through shared memory, a cycle each; of a LOAD, lines that are fetched; of a BARRIER,
            cycles of L1 that an arrival takes.
        tag_lines: (LOAD, COPY) lines looked up in L1's tags, a cycle each.
        queued_lines: (STORE) lines that may wait ahead of it to leave the SM.
        tensor_cycles: (MATMUL, TENSOR_MEMORY_MATMUL) of the tensor cores [cycles].
        port_reads: turns at the register port; a MATMUL takes its share of it as long as it runs.
        smem_passes: (SHARED) matmuls that it lets go first where these take all of shared memory.
    """

    kind: int = PLAIN
    pipe: int = NO_PIPE
    stall_cycles: int = 0
    write_scoreboard: int = -1
    read_scoreboard: int = -1
    wait_mask: int = 0
    pending: int = 0
    commits: int = 0
    stores: int = 0
    spills: int = 0
    barrier: int = 0
    barrier_warps: int = 0
    barrier_ring: int = 1
    only_arrives: int = 0
    channel: int = 0
    copies: int = 0
    free_phases: int = 0
    in_order: int = 0
    arrivals: int = 1
    arriving: int = 0
    leader: int = -1
    interval_cycles: float = 1.0
    fma_cycles: float = 0.0
    alu_cycles: float = 0.0
    latency_cycles: float = 0.0
    operand_cycles: float = 0.0
    smem_lines: float = 0.0
    tag_lines: float = 0.0
    queued_lines: float = 0.0
    tensor_cycles: float = 0.0
    port_reads: float = 0.0
    smem_passes: float = 0.0


INSTRUCTION = np.dtype(
    [(name, np.int64 if kind is int else np.float64) for name, kind in SmInstruction.__annotations__.items()]
)
"""The same as a record, for tables that the compiled simulation reads."""


def code_table(instructions: Iterable[SmInstruction]) -> np.ndarray:
    """Records of `INSTRUCTION`, one for each."""
    return np.array([tuple(instruction) for instruction in instructions], dtype=INSTRUCTION)
