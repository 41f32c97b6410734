"""Named barriers: numbers that code computes, warps that pass by, and loops of roles that go round together."""

import pytest
from rooms.trace.test_representative_ctas import subject_of
from tilesight.simulator.launch.traced import NamedBarrier
from tilesight.simulator.refusal import CannotFollow
from tilesight.simulator.trace.cta.unknown_values import UnknownValues
from tilesight.simulator.trace.mixed_visits import LoopVisit, rolled
from tilesight.simulator.trace.named_barriers import find_barriers
from tilesight.simulator.trace.nests import loops_of, side_by_side

AGAIN = ("IADD3 R3, R3, 0x1, RZ", "ISETP.LT.AND P0, PT, R3, 0x8, PT")


def uses_of(*code: str) -> list[NamedBarrier]:
    """Barriers of two warps that run code, in order."""
    subject = subject_of(*code)
    return [use for _, use in sorted(find_barriers(subject, UnknownValues(subject), 0).items())]


def test_barriers_that_code_computes_are_rings() -> None:
    """All would be taken for one barrier, at which a producer and its readers wait for each other for ever."""
    slot = ("LOP3.LUT R4, R3, 0x1, RZ, 0xc0, !PT", "IADD3 R4, R4, 0x1, RZ")
    code = (
        "S2R R0, SR_TID.X", "MOV R3, RZ", "ISETP.GE.AND P1, PT, R0, 0x20, PT", "@P1 BRA 0xb0",
        *slot, "BAR.SYNC.DEFER_BLOCKING R4, 0x40", *AGAIN, "@P0 BRA 0x40", "EXIT",
        *slot, "BAR.SYNC.DEFER_BLOCKING R4, 0x40", *AGAIN, "@P0 BRA 0xb0",
    )  # fmt: skip
    assert uses_of(*code) == [
        NamedBarrier(first=0, count=2, takes=2, coming=1),
        NamedBarrier(first=0, count=2, takes=2, coming=2),
    ]


def test_who_passes_by_does_not_come() -> None:
    """A warp whose guard is false would be counted."""
    code = ("S2R R0, SR_TID.X", "ISETP.GE.AND P1, PT, R0, 0x20, PT", "@P1 BAR.SYNC.DEFER_BLOCKING 0x3, 0x20")
    assert uses_of(*code) == [NamedBarrier(first=0, count=1, takes=1, coming=2)]


def test_a_ring_out_of_order_is_not_modelled() -> None:
    """Slots that are skipped would be given to those that do not wait for them."""
    code = ("S2R R0, SR_TID.X", "MOV R3, RZ", "IMAD R4, R3, R3, RZ", "LOP3.LUT R4, R4, 0x7, RZ, 0xc0, !PT",
            "BAR.SYNC.DEFER_BLOCKING R4, 0x40", *AGAIN, "@P0 BRA 0x20")  # fmt: skip
    with pytest.raises(CannotFollow, match="not used in order: not modelled"):
        uses_of(*code)


def test_a_loop_that_is_unrolled_goes_round_with_one_that_is_not() -> None:
    """A ring would be filled four times as fast as it is emptied."""
    producer = (0, LoopVisit(1, ((1,),) * 4), 2)
    reader = (3, LoopVisit(2, ((4,),) * 17), 5)
    warps, together = side_by_side([producer, reader], [loops_of(path) for path in (producer, reader)])
    assert together == {0} and warps[0] == producer
    assert warps[1] == (3, LoopVisit(2, ((4, 4, 4, 4),) * 4), 4, 5)
    assert rolled(reader, {}) == reader
