"""Static work of a compiled launch: executions of each basic block times what its instructions take."""

from collections.abc import Sequence

import numpy as np

from ..core.sm import instruction as sm
from ..device.device import Device
from ..emulator.global_memory import Memory
from ..limits import SUB_CORES, WARP_THREADS, WARPGROUP_WARPS
from ..refusal import CannotFollow, DoesNotFit, Refused
from ..residency.residency import residency_of_ctas
from ..sass.decode import Instruction
from ..sass.flow import flow_of
from ..sass.opcodes import rules, thread_bytes
from ..sm.instructions import lowered_table
from ..sm.tensor_rate import with_tensor_rates
from ..trace.cta.block_counts import count_blocks
from ..trace.cta.traced_kernel import CompiledKernel, TracedKernel
from ..trace.cta.unknown_values import UnknownValues
from .static_time import StaticWork

SAMPLED = 64
"""CTAs whose blocks are counted, spread evenly over the grid."""
ISSUED_ONCE = (sm.TENSOR_MEMORY_MATMUL, sm.BULK_COPY, sm.BULK_STORE)
"""Kinds that one warp of a CTA issues for all."""


def static_work(kernel: CompiledKernel, device: Device) -> StaticWork | None:
    """Work of a launch; None where its code cannot be followed: then only a prediction can say why."""
    code = kernel.resources.code
    if code is None:
        return None
    try:
        residency = residency_of_ctas(kernel.resources, kernel.warps, kernel.ctas, device)
        flow, memory = flow_of(code.sass), Memory(kernel.storages)
        subject = TracedKernel(kernel=kernel, flow=flow, constants=code.constants, memory=memory)
        sampled = np.unique(np.linspace(0, kernel.ctas - 1, SAMPLED).round().astype(np.int64))
        blocks = count_blocks(subject, UnknownValues(subject), sampled.tolist()).mean(axis=0)
    except (CannotFollow, DoesNotFit, Refused, ValueError):
        return None
    capability = int(device.compute_capability.replace(".", ""))
    table = with_tensor_rates(
        lowered_table(flow, capability, device.sm)[0], flow.instructions, rules(capability), device
    )
    block_of = np.repeat(np.arange(len(flow.blocks)), [block.stop - block.first for block in flow.blocks])
    kinds = table["kind"]
    warps = np.where(np.isin(kinds, ISSUED_ONCE), 1, kernel.warps)
    issued = warps * blocks[block_of]
    moved = _moved_bytes(kernel, flow.instructions, kinds) * warps
    per_block = np.bincount(block_of, weights=np.where(np.isin(kinds, (sm.LOAD, sm.COPY, sm.BULK_COPY)), moved, 0.0))
    ahead = kernel.num_stages - 1 if np.isin(kinds, (sm.COPY, sm.BULK_COPY)).any() else 1
    return StaticWork(
        ctas=kernel.ctas,
        resident=residency.ctas_per_sm,
        sm_cycles=_busiest_cycles(table, issued),
        fill_bytes=float(blocks[block_of] @ moved),
        hbm_bytes=float(sum(storage.size_bytes for storage in kernel.storages)),
        flight_bytes=float(per_block.max(initial=0.0)) * max(1, ahead),
    )


def _busiest_cycles(table: np.ndarray, issued: np.ndarray) -> float:
    """What a CTA takes the busiest unit of an SM [cycles]. Args: issued: executions of each row by all its warps."""
    shared = np.where(table["kind"] == sm.TENSOR_MEMORY_MATMUL, SUB_CORES, 1)  # it takes all four tensor cores
    units = [issued @ (table["tensor_cycles"] * shared), issued.sum()]
    units += [issued @ np.where(table["pipe"] == pipe, table["interval_cycles"], 0.0) for pipe in range(1, sm.PIPES)]
    by_one = np.where(table["kind"] == sm.MATMUL, 1 / WARPGROUP_WARPS, 1.0)  # its four warps read operands together
    return max(
        float(max(units)) / SUB_CORES, float(issued @ (by_one * np.maximum(table["smem_lines"], table["tag_lines"])))
    )


def _moved_bytes(kernel: CompiledKernel, instructions: Sequence[Instruction], kinds: np.ndarray) -> np.ndarray:
    """What an instruction of a warp moves between L2 and its SM, as if its lanes touched neighbouring words [B]."""
    moved = np.zeros(len(instructions))
    for place in np.flatnonzero(np.isin(kinds, (sm.LOAD, sm.STORE, sm.COPY))):
        moved[place] = WARP_THREADS * thread_bytes(instructions[place])
    copies = kinds == sm.BULK_COPY
    if copies.any():  # of all buffers in shared memory a copy fills its part of one
        moved[copies] = kernel.resources.smem_bytes_per_cta / max(1, kernel.num_stages) / copies.sum()
    return moved
