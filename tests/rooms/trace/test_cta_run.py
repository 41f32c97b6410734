"""CTAs that are followed together, each as if it were alone."""

import numpy as np
from rooms.trace.test_representative_ctas import ADDRESS, COLUMN, GRID, LOAD, MASK, subject_of
from tilesight.simulator.trace.cta.address_slice import Tracer, find_slice
from tilesight.simulator.trace.cta.cta_run import CtaRun, follow_cta, follow_ctas
from tilesight.simulator.trace.cta.unknown_values import UnknownValues

CODE = (
    *COLUMN,
    MASK,
    *ADDRESS,
    "MOV R9, RZ",
    LOAD,  # at 0x80, the begin of a loop that each column of CTAs runs so many times
    "IADD3 R6, R6, 0x100, RZ",
    "IADD3 R9, R9, 0x1, RZ",
    "ISETP.LE.AND P1, PT, R9, R1, PT",
    "@P1 BRA 0x80",
    "@!P0 EXIT",
    "STG.E [R6.64], R8",
)


def as_lists(run: CtaRun) -> object:
    """All that was recorded of a CTA, to be compared."""
    accesses = [
        (access.visit, access.place, access.addresses.tolist(), access.active.tolist(), access.anchor)
        for access in run.accesses
    ]
    return run.cta, run.blocks, accesses, run.positions, run.issued.tolist(), run.reconverged.tolist()


def test_ctas_are_followed_together_as_they_are_alone() -> None:
    """Loops of other lengths, masks and addresses, in warps that end early."""
    subject = subject_of(*CODE)
    tracer = Tracer(subject, find_slice(subject), UnknownValues(subject))
    ctas = [0, 5, GRID[0] - 1, 3 * GRID[0] + 7]
    together = follow_ctas(tracer, ctas)
    assert [as_lists(run) for run in together] == [as_lists(follow_cta(tracer, cta)) for cta in ctas]
    assert len({run.blocks for run in together}) > 2
    assert np.ptp([len(run.accesses) for run in together]) > 5
