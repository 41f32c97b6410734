"""Instructions beside tile products of another warpgroup: what `softmax_beside.cu` measured on an H200."""

import json
import lzma

import pytest
from machine.sm_toys import Code, walk
from support.lab import DATA
from tilesight.simulator.core.sm import instruction as op
from tilesight.simulator.device.device import load_device
from tilesight.simulator.sm.machine import latencies_of

SHIPPED = latencies_of(load_device("h200"), 132)
PIPES = {
    "a": {"pipe": op.ALU, "interval": 2.0},
    "f": {"pipe": op.FMA, "interval": 1.0},
    "x": {"pipe": op.MUFU, "interval": 8.0},
}
"""Letter of an instruction -> its pipe: FMNMX, F2FP and LOP3; FFMA and FADD; EX2."""
TURNS = {
    "EX2": "x" * 32,
    "FMNMX of two registers": "a" * 32,
    "FFMA of one register and two that stay": "f" * 32,
    "two EX2 and F2FP": "axaaaaxa" + "xxa" * 13 + "xxxxx",
    "softmax in phases": "fafafffafaxfafafafxfafafafxfafafafxaafafaxafaaaxaaafaxfaaaxaaaxfaxaaxafafxfff"
    "xffxffxfaxfaxfxfxfxfxafffxfaxfaxfaxffaxfxffaxffaxffaxaffxffxfaffaffaf",
    "softmax in turn": "faffxafafafaxaafafafaxaaaaxfaaaafaxaafaaxafafafaxaaafaxafafaaxffaaaxfxxafffxafa"
    "ffaxaffffffxffaffffxfafaffxfxfaxfxfaffaffxffxafffffxffxfxxfxxxxxxff",
}
"""A turn of a warp, in the order in which ptxas of CUDA 13.0 wrote it."""
LOOP_CYCLES = 12
"""That FFMA take a lone warp beside those of the instructions, in a turn of 32."""


def measured(mix: str, mixing: int, product: str = "m64n128k16 RS") -> tuple[float, float]:
    """Cycles of a sub-core for an instruction, and of an SM for a product. Args: mixing: warps of a sub-core."""
    with lzma.open(DATA / "softmax-beside-h200-2026-12-01.ndjson.xz", "rt") as stream:
        rows = [json.loads(line) for line in stream][1:]
    (row,) = (
        row
        for row in rows
        if (row["mix"], row["product"], row["multiplying"], len(row["cycles"])) == (mix, product, 2, mixing)
    )
    return sum(row["cycles"]) / mixing**2, row["cycles_per_product"]


def simulated(mix: str, mixing: int) -> float:
    """The first, of warps that run the mix beside two warpgroups with rows of 16 products each."""
    code = Code()
    for letter in TURNS[mix]:
        code.add(port=1.0, **PIPES[letter])  # type: ignore[arg-type]
    code.add(stall=LOOP_CYCLES)
    first = len(code.rows)
    for number in range(16):
        code.matmul(commits=number == 15)
    code.add(kind=op.MATMUL_WAIT, pending=0)
    paths = [[(0, first, 0)] * 60] * (4 * mixing) + [[(first, len(code.rows), 1)] * 90] * 8
    seen = walk(code, paths, latencies=SHIPPED)
    turns, rows = seen.times(0)[5:50], len(seen.times(0))
    assert rows == 60
    return float(turns[-1] - turns[0]) / (len(turns) - 1) / first / mixing


@pytest.mark.parametrize("mixing", [1, 2])
@pytest.mark.parametrize("mix", [mix for mix in TURNS if "FFMA" not in mix])
def test_instructions_beside_products_take_as_long_as_on_an_h200(mix: str, mixing: int) -> None:
    """A softmax would take half as long again, if each instruction had the port in turns of five cycles."""
    assert simulated(mix, mixing) == pytest.approx(measured(mix, mixing)[0], rel=0.15)
