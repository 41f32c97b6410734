"""CTAs that are followed together, each as if it were alone."""

import numpy as np
from rooms.trace.test_stand_ins import ADDRESS, COLUMN, GRID, LOAD, MASK, subject_of
from tilesight.simulator.trace.cta.doubts import Doubts
from tilesight.simulator.trace.cta.one_cta import OneCta, follow_cta, follow_ctas
from tilesight.simulator.trace.cta.sites import find_slice

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


def told(one: OneCta) -> object:
    """All that was seen of a CTA."""
    accesses = [
        (each.visit, each.place, each.addresses.tolist(), each.active.tolist(), each.anchor) for each in one.accesses
    ]
    return one.cta, one.paths, accesses, one.positions, one.issued.tolist(), one.rejoined.tolist()


def test_ctas_are_followed_together_as_they_are_alone() -> None:
    """Loops of other lengths, masks and addresses, in warps that end early."""
    subject = subject_of(*CODE)
    doubts, found = Doubts(subject), find_slice(subject)
    ctas = [0, 5, GRID[0] - 1, 3 * GRID[0] + 7]
    together = follow_ctas(subject, found, ctas, doubts)
    assert [told(one) for one in together] == [told(follow_cta(subject, found, cta, doubts)) for cta in ctas]
    assert len({one.paths for one in together}) > 2
    assert np.ptp([len(one.accesses) for one in together]) > 5
