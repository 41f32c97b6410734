"""CTAs that stand for others: few where most differ by addresses alone, and never of CTAs that touch otherwise."""

from math import prod

import numpy as np
import pytest
from support.listings import listing, words
from tilesight.simulator.emulator.global_memory import Memory
from tilesight.simulator.emulator.storage import Storage
from tilesight.simulator.launch.program import Code, Resources
from tilesight.simulator.sass.flow import flow_of
from tilesight.simulator.trace.alike.representative_ctas import stand_ins
from tilesight.simulator.trace.cta.address_slice import Tracer, find_slice
from tilesight.simulator.trace.cta.cta_run import follow_cta
from tilesight.simulator.trace.cta.every_thread import signatures
from tilesight.simulator.trace.cta.group import CtaGroup
from tilesight.simulator.trace.cta.knowable import find_unknown
from tilesight.simulator.trace.cta.traced_kernel import CompiledKernel, TracedKernel
from tilesight.simulator.trace.cta.unknown_values import UnknownValues

GRID, WARPS = (16, 32, 1), 2
COLUMNS = 1000
"""Of a row, of which each CTA of the 16 takes 64: the last one has 40 left."""
X = Storage(number=0, size_bytes=1 << 30, name="x")
CONSTANTS = words({0x210: X.address & 0xFFFFFFFF, 0x214: X.address >> 32, 0x218: COLUMNS})
COLUMN = ("S2R R0, SR_TID.X", "S2R R1, SR_CTAID.X", "S2R R2, SR_CTAID.Y", "IMAD R3, R1, 0x40, R0")
MASK = "ISETP.LT.AND P0, PT, R3, c[0x0][0x218], PT"
ADDRESS = (
    "IMAD R4, R2, c[0x0][0x218], R3",
    "IMAD.WIDE R6, R4, 0x4, c[0x0][0x210]",
)
LOAD = "@P0 LDG.E R8, [R6.64]"


def subject_of(*code: str) -> TracedKernel:
    """A launch of a kernel of these instructions."""
    sass = listing(*code, "EXIT")
    resources = Resources(
        registers_per_thread=32, smem_bytes_per_cta=0, warps_per_cta=WARPS, code=Code(sass=sass, constants=CONSTANTS)
    )
    called = CompiledKernel(name="toy", grid=GRID, num_warps=WARPS, num_stages=1, resources=resources, storages=(X,))
    flow, memory = flow_of(sass), Memory([X])
    unknown = find_unknown(flow, CONSTANTS, memory)
    return TracedKernel(kernel=called, flow=flow, constants=CONSTANTS, memory=memory, unknown=unknown)


def followed(*code: str) -> tuple[int, np.ndarray, np.ndarray]:
    """How many CTAs stand for all of them; signatures of the one load by these, and of all CTAs."""
    subject = subject_of(*code)
    tracer = Tracer(subject, find_slice(subject), UnknownValues(subject))
    group = CtaGroup(follow_cta(tracer, 0), np.arange(prod(GRID)), {})
    first, which = stand_ins(tracer, group)
    (of_stand_ins,) = signatures(tracer, group.subset(first)).values()
    (of_all,) = signatures(tracer, group).values()
    return len(first), of_stand_ins[which], of_all


def test_rows_alone_tell_nothing_apart() -> None:
    """512 CTAs would be followed thread by thread; those of one column do the same at other addresses."""
    count, by_stand_ins, by_all = followed(*COLUMN, MASK, *ADDRESS, LOAD)
    assert count == GRID[0]
    assert by_stand_ins.tolist() == by_all.tolist()
    assert len(np.unique(by_all)) == 2, "those of whole columns, and the last"


@pytest.mark.parametrize(
    ("between", "count"),
    [
        ("LOP3.LUT R4, R4, 0xfff0, RZ, 0xc0, !PT", prod(GRID)),
        ("@P0 IADD3 R4, R4, R2, RZ", prod(GRID)),
        ("IMAD R4, R2, R0, R4", prod(GRID)),
        ("IMAD.HI.U32 R4, R4, 0x10000000, RZ", prod(GRID)),
        ("LEA.HI R4, R4, R4, RZ, 0x4", prod(GRID)),
        ("SHF.L.U32 R4, R4, 0x1, RZ", GRID[0]),
        ("IADD3 R4, R4, R2, RZ", GRID[0]),
        ("IMAD R4, R2, R1, R4", GRID[0]),
    ],
)
def test_what_is_no_sum_tells_ctas_apart(between: str, count: int) -> None:
    """A CTA whose threads lie otherwise would be taken for one that they do not."""
    number, by_stand_ins, by_all = followed(*COLUMN, MASK, ADDRESS[0], between, ADDRESS[1], LOAD)
    assert number == count
    assert by_stand_ins.tolist() == by_all.tolist()


def test_guards_tell_ctas_apart() -> None:
    """CTAs of which no thread loads would be taken for those of which all do."""
    rows = "ISETP.LT.AND P0, PT, R2, 0x4, PT"
    count, by_stand_ins, by_all = followed(*COLUMN, rows, *ADDRESS, LOAD)
    assert count == 2
    assert by_stand_ins.tolist() == by_all.tolist()
    assert len(np.unique(by_all)) == 2
