"""What operands read from the state of the threads."""

import numpy as np
import pytest
from support.made_code import made_instruction
from tilesight.simulator.emulator.read_operands import address_of, float_of, global_address_of, number_of, pair_of
from tilesight.simulator.emulator.thread_values import UNKNOWN, word
from tilesight.simulator.emulator.threads import Threads
from tilesight.simulator.sass.memory_instructions import addressed
from tilesight.simulator.sass.operands import parse

MINUS_TWO = int(np.float32(-2).view(np.uint32))
THREADS = Threads(
    constants={0x210: 5, 0x214: 1},
    special={},
    registers={"R2": (word(0x100), True), "R3": (word(1), True), "R4": (word(MINUS_TWO), True), "UR6": (word(8), True)},
)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("-0x1", 2**32 - 1),
        ("c[0x0][0x210]", 5),
        ("-R2", 2**32 - 0x100),
        ("~R2.reuse", 2**32 - 1 - 0x100),
        ("URZ", 0),
        ("-RZ", 2**32),
        ("[R2.X4+UR6+-0x10]", 0x400 + 8 - 0x10),
        ("desc[UR4][R2.64+UR6+0x10]", 2**32 + 0x100 + 8 + 0x10),
    ],
)
def test_a_word_or_an_address_is_read_as_the_adder_takes_it(text: str, number: int) -> None:
    """A sign, a scale, the carry of minus zero or the upper half of an address would be lost."""
    operand = parse(text)
    read = global_address_of(operand) if "desc" in text else address_of(operand) if "[R" in text else number_of(operand)
    array, known = read(THREADS)
    assert (int(array.item()), known) == (number, True)


@pytest.mark.parametrize("text", ["R4.H1_H1", "|R4|", "c[0x4][0x210]", "c[0x0][R2+0x210]", "tmem[UR6]", "SR_TID.X"])
def test_what_is_no_whole_word_of_the_launch_or_of_a_register_is_not_known(text: str) -> None:
    """Half a register would be taken for the whole one, or a table for an argument."""
    assert number_of(parse(text))(THREADS)[1] is UNKNOWN[1]


@pytest.mark.parametrize(("text", "number"), [("R4", -2.0), ("|R4|.reuse", 2.0), ("-|R4|", -2.0), ("-1.5", -1.5)])
def test_a_float_has_bars_and_a_sign(text: str, number: float) -> None:
    """A comparison with a magnitude, beside the mark of the register cache, would be one with nothing known."""
    array, known = float_of(parse(text))(THREADS)
    assert (np.uint32(array.item()).view(np.float32), known) == (number, True)


@pytest.mark.parametrize(("text", "number"), [("R2", 2**32 + 0x100), ("c[0x0][0x210]", 2**32 + 5), ("-0x1", -1)])
def test_a_pair_is_one_number_of_64_bits(text: str, number: int) -> None:
    """Pointers would lose their upper halves."""
    assert int(pair_of(parse(text))(THREADS)[0].item()) == number


def test_a_compare_and_swap_has_an_address_of_64_bits_too() -> None:
    """Of its base the lower register alone is printed."""
    (address,) = addressed(made_instruction(0, "ATOMG.E.CAS.STRONG.GPU", "PT", "R8", "[R2]", "R4", "R5"))
    assert address.names == ("R2", "R3")
    (shared,) = addressed(made_instruction(0, "STS", "[R2]", "R4"))
    assert shared.names == ("R2",)
