"""Rings of mbarriers: slots and phases that code computes, as its warps use them."""

import pytest
from rooms.trace.test_representative_ctas import subject_of
from tilesight.simulator.launch.traced import Mbarrier
from tilesight.simulator.refusal import CannotFollow
from tilesight.simulator.trace.cta.unknown_values import UnknownValues
from tilesight.simulator.trace.mbarriers import find_mbarriers

TRIPS, SLOTS = 20, 4
RING = (
    f"LOP3.LUT R4, R3, {SLOTS - 1:#x}, RZ, 0xc0, !PT",
    "SHF.L.U32 R4, R4, 0x3, RZ",
    f"SHF.R.U32 R5, R3, {SLOTS.bit_length() - 1:#x}, RZ",
    "SHF.L.U32 R5, R5, 0x1f, RZ",
)
"""Where slot R3 % 4 of a ring lies, and the parity of round R3 / 4."""
AGAIN = ("IADD3 R3, R3, 0x1, RZ", f"ISETP.LT.AND P0, PT, R3, {TRIPS:#x}, PT")
WAIT, ARRIVE = "SYNCS.PHASECHK.TRANS64.TRYWAIT P2, [{}], {}", "SYNCS.ARRIVE.TRANS64.A1T0 RZ, [{}], RZ"
ANNOUNCE = "SYNCS.ARRIVE.TRANS64 RZ, [R4+0x100], R8"


def code(*, read: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Warp 0 fills a ring at 0x100, warp 1 empties it and gives room back at 0x200. Args: read: more of warp 1."""
    producer = (*RING, "LOP3.LUT R6, R5, 0x80000000, RZ, 0x3c, !PT", WAIT.format("R4+0x200", "R6"), ANNOUNCE, *AGAIN)
    consumer = (*RING, *read, WAIT.format("R4+0x100", "R5"), ARRIVE.format("R4+0x200"), *AGAIN)
    begin = (
        "S2R R0, SR_TID.X",
        "MOV R3, RZ",
        "ISETP.GE.AND P1, PT, R0, 0x20, PT",
        f"@P1 BRA {16 * (6 + len(producer)):#x}",
    )
    parts = (*begin, *producer, f"@P0 BRA {16 * len(begin):#x}", "EXIT")
    return (*parts, *consumer, f"@P0 BRA {16 * len(parts):#x}")


def rings(*lines: str) -> list[Mbarrier]:
    """Of all instructions on mbarriers, in order."""
    subject = subject_of(*lines)
    return [use for _, use in sorted(find_mbarriers(subject, UnknownValues(subject), 0).items())]


def test_a_producer_finds_all_slots_free_at_first() -> None:
    """It would wait for a consumer that waits for it, or run on over what is not read yet."""
    room, full = 1, 0
    assert rings(*code()) == [
        Mbarrier(ring=room, ahead=SLOTS, arrivals=1),
        Mbarrier(ring=full, ahead=0, arrivals=1, arriving=1),
        Mbarrier(ring=full, ahead=0, arrivals=1),
        Mbarrier(ring=room, ahead=0, arrivals=1, arriving=2),
    ]


def test_slots_that_are_skipped_are_not_modelled() -> None:
    """A group that reads every other buffer would be given those that it does not wait for."""
    skipping = ("ISETP.GE.AND P3, PT, R3, 0x2, PT", "@P3 IADD3 R4, R4, 0x8, RZ", "LOP3.LUT R4, R4, 0x18, RZ, 0xc0, !PT")
    with pytest.raises(CannotFollow, match=r"^slots of a ring of mbarriers are not used in order: not modelled$"):
        rings(*code(read=skipping))
