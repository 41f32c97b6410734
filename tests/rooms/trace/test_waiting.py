"""Loops that wait for other CTAs, told from those that end by themselves."""

import pytest
from support.listings import flow_of
from tilesight.simulator.trace.cta.waiting import find_waiting

CAS = "ATOMG.E.CAS.STRONG.GPU PT, R8, [R2], R4, R5"
ADD = "ATOMG.E.ADD.STRONG.GPU PT, R8, desc[UR4][R2.64], R5"
LOAD = "LDG.E.STRONG.SYS R8, desc[UR4][R2.64]"
AGAIN = ("ISETP.NE.AND P0, PT, R8, RZ, PT", "@P0 BRA 0x10", "EXIT")


def loop(*body: str) -> tuple[str, ...]:
    """A loop whose last load decides whether it goes on."""
    return ("MOV R5, 0x1", *body, *AGAIN)


@pytest.mark.parametrize(
    "body",
    [
        (CAS,),
        (ADD,),
        (LOAD,),
        ("MOV R4, RZ", CAS),
        ("@P1 ATOMG.E.CAS.STRONG.GPU PT, R8, [R2], R4, R5", "STS [UR4], R8", "BAR.SYNC 0x0", "LDS R8, [UR4]"),
        (LOAD, "FADD R6, R6, R7"),
        ("IMAD.U32 R8, RZ, RZ, UR8", "IMAD.U32 R9, RZ, RZ, UR9", "LDG.E.STRONG.GPU R8, desc[UR4][R8.64]"),
    ],
)
def test_what_no_iteration_changes_waits_for_others(body: tuple[str, ...]) -> None:
    """A lock, a counter, a flag: each try is the same as the last."""
    waiting = find_waiting(flow_of(*loop(*body)))
    (polled,) = waiting.polled
    assert polled == next(place for place, text in enumerate(loop(*body)) if "ATOMG" in text or "LDG" in text)
    assert waiting.retries == frozenset()


@pytest.mark.parametrize(
    "body",
    [
        ("FADD R5, R4, R6", CAS, "MOV R4, R8"),
        ("LDG.E R4, desc[UR4][R2.64]", "FADD R5, R4, R6", CAS),
        ("STS [UR4], R4", "LDS R4, [UR4]", CAS, "MOV R4, R8"),
        ("LDS R4, [R2]", "FADD R5, R4, R6", "ATOMS.CAST.SPIN R8, [R2], R4, R5"),
    ],
)
def test_a_swap_of_what_was_read_is_tried_again(body: tuple[str, ...]) -> None:
    """It succeeds where nobody came between, however long others take."""
    waiting = find_waiting(flow_of(*loop(*body)))
    assert (waiting.retries, waiting.polls) == (frozenset({0}), {})


@pytest.mark.parametrize(
    "body",
    [
        ("IADD3 R2, R2, 0x4, RZ", LOAD),
        ("IADD3 R2, R6, 0x4, RZ", LOAD, "MOV R6, R2"),
        ("LDG.E.STRONG.GPU R8, desc[UR4][R8.64]",),
        (ADD, "STG.E desc[UR4][R10.64], R8"),
        ("IADD3 R8, R8, -0x1, RZ",),
        ("FADD R4, R8, R6", "MOV R4, RZ", CAS, "STG.E desc[UR4][R10.64], R8"),
    ],
)
def test_what_does_something_else_is_neither(body: tuple[str, ...]) -> None:
    """A search, a queue of work, a count; a result that is overwritten before it is used."""
    waiting = find_waiting(flow_of(*loop(*body)))
    assert (waiting.retries, waiting.polls) == (frozenset(), {})
