"""Predicates that an instruction joins with what it computes, and roundings to zero."""

import numpy as np
import pytest
from rooms.emulator.test_tma import LANES, instruction
from tilesight.simulator.emulator.semantics import compile_instruction
from tilesight.simulator.emulator.thread_values import Value
from tilesight.simulator.emulator.threads import Threads

EVERYONE = np.ones((1, 1, 32), dtype=np.bool_)
TRUTH: Value = (LANES % 2 == 1, True)


def after(text: str, **registers: Value) -> Threads:
    """Threads behind an instruction."""
    threads = Threads(constants={}, special={}, registers=dict(registers))
    compile_instruction(instruction(text))(threads, EVERYONE)
    return threads


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("LOP3.LUT P0, RZ, R2, 0x4, RZ, 0xc0, !PT", LANES & 4 != 0),
        ("LOP3.LUT P0, RZ, R2, 0x4, RZ, 0xc0, P1", (LANES & 4 != 0) | (LANES % 2 == 1)),
        ("LOP3.LUT.PAND P0, RZ, R2, 0x4, RZ, 0xc0, P1", (LANES & 4 != 0) & (LANES % 2 == 1)),
    ],
)
def test_a_word_that_is_not_zero_is_joined_with_a_predicate(text: str, holds: np.ndarray) -> None:
    """Whether a row has any column is asked of both words of their number: loads of all rows would be skipped."""
    threads = after(text, R2=(LANES, True), P1=TRUTH)
    assert (threads.registers["P0"][0] == holds).all() and threads.registers["P0"][1] is True


def test_a_predicate_that_holds_decides_whatever_the_word() -> None:
    """What is known would be lost."""
    threads = after("LOP3.LUT P0, RZ, R2, 0x4, RZ, 0xc0, P1", R2=(LANES, False), P1=TRUTH)
    known = np.broadcast_to(np.asarray(threads.registers["P0"][1]), (1, 1, 32))
    assert (known == (LANES % 2 == 1)).all()


@pytest.mark.parametrize(("a", "b"), [(3.0, 1 / 3), (1.1, 1.1), (-1.1, 1.1)])
def test_products_are_rounded_to_zero(a: float, b: float) -> None:
    """A quotient would come out too large by one."""
    first, second = (np.full((1, 1, 1), int(np.float32(number).view(np.uint32))) for number in (a, b))
    threads = after("FMUL.RZ R4, R2, R3", R2=(first, True), R3=(second, True))
    product = np.array(threads.registers["R4"][0].flat[0], dtype=np.uint32).view(np.float32)
    exact = float(np.float32(a)) * float(np.float32(b))
    assert abs(product) <= abs(exact) < abs(np.nextafter(product, np.float32(2 * product)))


def test_whole_numbers_are_rounded_to_zero() -> None:
    """The largest would become 2^32."""
    threads = after("I2FP.F32.U32.RZ R4, R2", R2=(np.full((1, 1, 1), 0xFFFFFFFF), True))
    assert int(threads.registers["R4"][0].flat[0]) == 0x4F7FFFFF
