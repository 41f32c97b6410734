"""Small kernels in machine code, as cuobjdump would list them, and launches of them."""

from collections.abc import Mapping

import numpy as np
from tilesight.simulator.launch.program import Launch, Resources, TileProgram
from tilesight.simulator.sass.decode import decode
from tilesight.simulator.sass.flow import Flow, find_flow

CONTROL = 0x000FE200
"""Upper half of the high word: stall 1, no scoreboards."""


def listing(*lines: str, control: int = CONTROL) -> str:
    """A kernel of these instructions, 16 bytes each from 0 on. Args: control: upper half of every high word."""
    text = "\t\tFunction : toy\n"
    for place, line in enumerate(lines):
        text += f"        /*{16 * place:04x}*/ {line} ; /* 0x0000000000000000 */\n"
        text += f"        /* 0x{control:08x}00000000 */\n"
    return text


def flow_of(*lines: str) -> Flow:
    """Blocks and loops of a kernel of these instructions."""
    return find_flow(decode(listing(*lines)))


def launch_of(ctas: int = 1, *, warps: int = 1, items: int = 0, period: int = 0) -> Launch:
    """A launch that only says how many CTAs and warps there are. Args: items: more than CTAs: a persistent grid."""
    count = items or ctas
    program = TileProgram(
        tensors=(),
        variables=("slab",),
        items=lambda indices: np.zeros((len(indices), 1), dtype=np.int64),
        item_count=count,
        period_items=period or count,
        body=(),
    )
    resources = Resources(registers_per_thread=32, smem_bytes_per_cta=0)
    return Launch(
        name="toy", grid=(ctas, 1, 1), num_warps=warps, num_stages=1, program=program, resources=resources, dtype="fp16"
    )


def words(values: Mapping[int, int]) -> dict[int, int]:
    """Constant bank 0 with these words, the first parameter of sm_90 at 0x210."""
    return {address: value & 0xFFFFFFFF for address, value in values.items()}
