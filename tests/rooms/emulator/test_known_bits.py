"""Words of which some bytes are known: a flag that PRMT puts into a register whose other half holds data."""

import numpy as np
from rooms.emulator.test_tma import LANES, instruction
from tilesight.simulator.emulator.semantics import compile_instruction
from tilesight.simulator.emulator.thread_values import Value
from tilesight.simulator.emulator.threads import Threads

EVERYONE = np.ones((1, 1, 32), dtype=np.bool_)
HALF = LANES < 16
DATA: Value = (LANES * 0x01010101, np.zeros((1, 1, 1), dtype=np.bool_))
TEST = "LOP3.LUT P0, RZ, R9, {}, RZ, 0xc0, !PT"


def after(*steps: tuple[str, np.ndarray], **registers: Value) -> Threads:
    """Threads behind instructions. Args: steps: an instruction, and which lanes execute it."""
    threads = Threads(constants={}, special={}, registers=dict(registers))
    for text, mask in steps:
        compile_instruction(instruction(text))(threads, mask)
    return threads


def known(threads: Threads) -> np.ndarray:
    """In which lanes P0 is known."""
    return np.broadcast_to(np.asarray(threads.registers["P0"][1]), (1, 1, 32))


def test_a_half_word_beside_data_is_known() -> None:
    """Whether a persistent CTA has another tile is such a flag: how often its loop runs would be unknown."""
    clear = ("PRMT R9, RZ, 0x7610, R9", EVERYONE)
    low = after(clear, (TEST.format("0xff"), EVERYONE), R9=DATA)
    assert known(low).all() and not low.registers["P0"][0].any()
    assert not known(after(clear, (TEST.format("0x10000"), EVERYONE), R9=DATA)).any()


def test_the_sign_of_an_unknown_byte_is_unknown() -> None:
    """Four copies of a sign bit would be taken for zeros."""
    assert not known(after(("PRMT R9, R9, 0x8888, RZ", EVERYONE), (TEST.format("0x1"), EVERYONE), R9=DATA)).any()


def test_other_lanes_keep_what_is_known() -> None:
    """Warps of the last tile clear the flag, others set it: it would be lost for both."""
    steps = (
        ("PRMT R9, RZ, 0x7610, R9", EVERYONE),
        ("IMAD.MOV.U32 R9, RZ, RZ, 0x1", HALF),
        (TEST.format("0xff"), EVERYONE),
    )
    threads = after(*steps, R9=DATA)
    assert known(threads).all() and (threads.registers["P0"][0] == HALF).all()


def test_data_written_anew_are_not_known() -> None:
    """Bits of what was there before would be taken for bits of what is."""
    steps = (("PRMT R9, RZ, 0x7610, R9", EVERYONE), ("IADD3 R9, R8, 0x1, RZ", HALF), (TEST.format("0xff"), EVERYONE))
    assert (known(after(*steps, R8=DATA, R9=DATA)) == ~HALF).all()
