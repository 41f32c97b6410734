"""Registers and shared memory of a CTA, estimated from its tiles; compiled values can replace them.

The rule, for kernels that Triton compiles:

- Shared memory holds every tile that an asynchronous copy brings, once per buffer in flight
  (num_stages buffers for wgmma and tcgen05, which read them late; num_stages - 1 for mma.sync, which copies them to
  registers), and the operand tile that stays for the whole loop.
  Beside them lies what warps pass each other within the loop; what they pass after it lies over the stages.
- The warps of mma.sync have rows of their own where a tile has at least as many rows as the sum that a loop carries has
  columns; else they divide columns, and pass P through shared memory.
- Registers hold the fp32 sums and the operands that stay in registers, half a register for each score that a mask may
  hide, and a number for addresses and loop state. Warps that find no rows of their own hold what others hold.

Sums beyond the limit per thread are spilled, and with mma.sync P as well;
other operands that do not fit are read again, or converted piece by piece.

Source: kernels compiled by Triton 3.6, their TTGIR and their cubins; docs/resources.md says how far the rule is off.
"""

from dataclasses import dataclass

from ..device.device import Device
from ..launch.program import Resources
from ..limits import WARP_THREADS, WARPGROUP_WARPS

STATE_REGISTERS = {"mma": 40, "wgmma": 28, "tcgen05": 28}
"""Addresses and loop state of a thread, by tensor instruction; mma.sync also keeps fragments of its operands."""
CHAINED_REGISTERS = 8
"""More of them where mma.sync feeds one matmul with another."""
ROW_STATE_REGISTERS = 16
"""The same of a kernel that works on rows or elements: one address and a counter."""
EXCHANGE_BYTES_PER_THREAD = 64
"""Most that a thread gives to others at a time [B]."""
REGISTER_GRANULE = 8
MMA_ROWS, WGMMA_ROWS = 16, 64
"""Rows that a warp takes of a tile's matmul with mma.sync, and four warps with wgmma."""


def tensor_instruction(device: Device, block_m: int, num_warps: int) -> str:
    """Tensor-core instruction class that Triton picks for the matmul of a tile.

    wgmma and tcgen05 take 64 rows or more from whole groups of four warps; everything else becomes mma.sync.

    Returns:
        `mma`, `wgmma` or `tcgen05`.

    Source: compiled kernels (Triton 3.6): block_m = 32 compiles to HMMA on sm_90.
    """
    if block_m >= 64 and num_warps % WARPGROUP_WARPS == 0:
        if device.tcgen05_fp16_flop_per_cycle:
            return "tcgen05"
        if device.wgmma_fp16_flop_per_cycle:
            return "wgmma"
    return "mma"


def exchanged_bytes(tile_bytes: int, num_warps: int) -> int:
    """Shared memory through which a CTA's threads turn a tile from one layout into another, a part at a time [B]."""
    return min(tile_bytes, EXCHANGE_BYTES_PER_THREAD * WARP_THREADS * num_warps)


@dataclass(frozen=True, slots=True, kw_only=True)
class CtaTiles:
    """What a CTA holds.

    Args:
        block_m: rows of the tile's matmul; num_warps, num_stages: as in Triton.
        columns: of the sum that a loop carries, where one matmul feeds the next; 0 where there is one matmul.
        staged_bytes: tiles that one iteration of the pipelined loop copies in [B].
        turns: matmuls among which they are divided; without stages, the tiles of each take turns in one buffer.
        resident_bytes: operand tile kept in shared memory for the whole loop [B].
        exchange_bytes: shared memory for exchange within the loop, beside the stages [B].
        scratch_bytes: shared memory for exchange after the loop, over the stages [B].
        accumulators: fp32 numbers live in registers, over the whole CTA.
        operand_bytes: other operands live in registers, over the whole CTA [B]; of chained matmuls this is P.
        masked: scores that a mask may hide, over the whole CTA.
        state_registers: for addresses and loop state, where there is no matmul.
    """

    block_m: int
    num_warps: int
    num_stages: int
    columns: int = 0
    staged_bytes: int = 0
    turns: int = 1
    resident_bytes: int = 0
    exchange_bytes: int = 0
    scratch_bytes: int = 0
    accumulators: int = 0
    operand_bytes: int = 0
    masked: int = 0
    state_registers: int | None = None

    def estimated(self, device: Device) -> Resources:
        """Estimate what a CTA takes, by the rule above. Args: device: gives the instruction class and limits."""
        block_m, num_warps, stages = self.block_m, self.num_warps, self.num_stages
        threads = WARP_THREADS * num_warps
        instruction = tensor_instruction(device, block_m, num_warps)
        mma, chained, own_rows = instruction == "mma", self.columns > 0, block_m >= self.columns
        buffered_bytes = self.staged_bytes * (stages - mma) if stages > 1 else self.staged_bytes // self.turns
        passed_bytes = self.operand_bytes if mma and not own_rows else 0
        smem_bytes = buffered_bytes + self.resident_bytes + max(self.exchange_bytes, passed_bytes)

        sums, operands, kept = float(self.accumulators), self.operand_bytes / 4, 0.0
        if mma and chained and own_rows:
            # Warps beyond the tile's rows repeat those of others; each keeps its rows of the resident operand.
            repeated = max(1.0, num_warps * MMA_ROWS / block_m)
            sums, operands, kept = repeated * sums, repeated * operands, repeated * self.resident_bytes / 4
        if instruction == "wgmma" and chained:
            operands *= _operand_copies(block_m, num_warps)
        state = self.state_registers
        if state is None:
            state = STATE_REGISTERS[instruction] + (CHAINED_REGISTERS if mma and chained else 0)
        registers, needed = (
            -(-(state + -(-int(values) // threads)) // REGISTER_GRANULE) * REGISTER_GRANULE
            for values in (sums + operands + kept + self.masked / 2, sums + (operands if mma and chained else 0))
        )
        limit = min(device.max_registers_per_thread, device.registers_per_sm // threads)
        return Resources(
            registers_per_thread=min(registers, limit),
            smem_bytes_per_cta=max(smem_bytes, self.scratch_bytes),
            spilled_bytes_per_thread=4 * max(0, needed - limit),
            origin="estimated",
        )


def _operand_copies(block_m: int, num_warps: int) -> float:
    """P over its size: warp groups that share rows need all of it, beside the part that each has computed."""
    groups = num_warps // WARPGROUP_WARPS * WGMMA_ROWS / block_m
    return groups + 1 if groups > 1 else 1.0
