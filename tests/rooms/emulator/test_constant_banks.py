"""Loads from constant banks: bytes with and without a sign, places in registers, tables of jumps in another bank."""

import numpy as np
import pytest
from support.listings import flow_of
from tilesight.simulator.emulator.constant_banks import load_of_constants
from tilesight.simulator.emulator.thread_values import TRUE
from tilesight.simulator.emulator.threads import Threads
from tilesight.simulator.sass.constants import place_of

LANES = np.arange(32, dtype=np.int64).reshape(1, 1, 32)
BANKS = {0x210: 0x8844_2211, 0x214: 0xFFFF_FFFE, place_of(2, 0): 0x70, place_of(2, 4): 0x90}
"""Words of bank 0, and of a table in bank 2."""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("LDC R4, c[0x0][0x214]", [0xFFFF_FFFE]),
        ("LDC.64 R4, c[0x0][0x210]", [0x8844_2211, 0xFFFF_FFFE]),
        ("ULDC.U8 UR4, c[0x0][0x211]", [0x22]),
        ("LDC.S8 R4, c[0x0][0x213]", [0xFFFF_FF88]),
        ("LDC.U16 R4, c[0x0][0x212]", [0x8844]),
        ("LDC R4, c[0x2][0x4]", [0x90]),
        ("LDC R4, c[0x0][0x218]", [None]),
        ("LDC R4, c[0x2][R9]", [None]),
    ],
)
def test_parts_of_words_and_other_banks(text: str, words: list[int | None]) -> None:
    """A flag beside another one would be read together with it."""
    code = flow_of(text, "EXIT").instructions[0]
    threads = Threads(constants=BANKS, special={}, registers={"R9": (LANES, False)})
    loaded = load_of_constants(code, code.operands[1])(threads, TRUE[0])
    assert [int(array.flat[0]) if np.all(known) else None for array, known in loaded] == words


def test_a_place_in_a_register_is_each_threads_own() -> None:
    """An array among the parameters, or a table of jumps, would not be followed."""
    code = flow_of("LDC R4, c[0x2][R6+-0x8]", "EXIT").instructions[0]
    threads = Threads(constants=BANKS, special={}, registers={"R6": (8 + 4 * (LANES % 3), True)})
    ((array, known),) = load_of_constants(code, code.operands[1])(threads, TRUE[0])
    assert array.reshape(-1)[:3].tolist() == [0x70, 0x90, 0] and np.reshape(known, -1)[:3].tolist() == [
        True,
        True,
        False,
    ]
