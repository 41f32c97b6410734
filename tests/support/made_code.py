"""A launch of flash2 with the machine code that was recorded for it, and no compiler needed."""

import gzip
from dataclasses import replace
from pathlib import Path

from tilesight.simulator.device.device import load_device
from tilesight.simulator.launch.program import Code, Launch, Resources
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.sass.decode import Instruction
from tilesight.simulator.schedules.config import Config
from tilesight.simulator.schedules.registry import find_schedule

RECORDED = Path(__file__).parents[1] / "recorded" / "sass-flash2-sm90.txt.gz"
CODE_PROBLEM = AttentionProblem(batch=1, heads=4, seqlen_q=1024, seqlen_k=1024, head_dim=64)
CODE_CONFIG = Config(block_m=64, block_n=64, num_warps=4, num_stages=3)
THREADS_AND_GRID = {0: 128, 4: 1, 8: 1, 12: 64, 16: 1, 20: 1}
ARGUMENTS = {568: 1024, 572: 1024, 576: 4, 580: 64, 584: 0x3E38AA3B}
"""Lengths, heads, query tiles; the last is log2(e) / 8 in fp32."""
CODE = Code(sass=gzip.decompress(RECORDED.read_bytes()).decode(), constants=THREADS_AND_GRID | ARGUMENTS)
"""flash2, 64 x 64 tiles, D = 64, 4 warps, 3 stages, fp16, not causal; Triton 3.6.0 for sm_90."""
CODE_RESOURCES = Resources(
    registers_per_thread=106, smem_bytes_per_cta=57344, warps_per_cta=4, origin="compiled", code=CODE
)


def coded_launch() -> Launch:
    """The launch, with its code."""
    (launch,) = find_schedule("flash2").launches(CODE_PROBLEM, CODE_CONFIG, load_device("h200"))
    return replace(launch, resources=CODE_RESOURCES)


def made_instruction(
    address: int, opcode: str, *operands: str, target: int | None = None, predicate: str = ""
) -> Instruction:
    """An instruction that waits for nothing, and that nothing waits for."""
    return Instruction(
        address=address,
        predicate=predicate,
        opcode=opcode,
        printed=operands,
        target=target,
        stall_cycles=1,
        yields=False,
        write_barrier=-1,
        read_barrier=-1,
        wait_mask=0,
        reuse=0,
    )
