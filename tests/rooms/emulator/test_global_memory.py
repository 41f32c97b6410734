"""What loads and copies from memory with values leave in registers and in shared memory; who takes part in them."""

import numpy as np
import pytest
from support.made_code import made_instruction
from tilesight.simulator.emulator.access_lanes import Touch
from tilesight.simulator.emulator.global_memory import Memory, load_of_memory
from tilesight.simulator.emulator.shared_accesses import copied, load_of
from tilesight.simulator.emulator.shared_memory import SharedMemory
from tilesight.simulator.emulator.storage import Storage
from tilesight.simulator.emulator.thread_values import TRUE, UNKNOWN_FLAG, truth, word
from tilesight.simulator.emulator.threads import Threads

GIVEN = Storage(number=0, size_bytes=8, name="X", whole=True, values=bytes([0x80, 0xFF, 0x7F, 0, 1, 2, 3, 0x84]))
MEMORY = Memory([GIVEN])


def threads_at(offset: int) -> Threads:
    """All threads, with the address of a byte of that storage in R2 and R3."""
    low, high = GIVEN.address + offset & 0xFFFFFFFF, GIVEN.address >> 32
    return Threads(constants={}, special={}, registers={"R2": (word(low), True), "R3": (word(high), True)})


def loaded(width: str, offset: int) -> int:
    """What a load leaves in R4."""
    threads = threads_at(offset)
    load_of_memory(made_instruction(0, f"LDG.E{width}", "R4", "desc[UR4][R2.64]"), MEMORY)(threads, TRUE[0])
    array, known = threads.registers["R4"]
    assert np.all(known)
    return int(array.item())


@pytest.mark.parametrize(
    ("width", "offset", "value"),
    [
        (".U8", 0, 0x80),
        (".S8", 0, 0xFFFFFF80),
        (".S8", 2, 0x7F),
        (".U16", 0, 0xFF80),
        (".S16", 0, 0xFFFFFF80),
        (".S16", 2, 0x7F),
        ("", 0, 0x007FFF80),
        (".S8", 7, 0xFFFFFF84),
        (".S16", 6, 0xFFFF8403),
    ],
)
def test_a_narrow_load_with_a_sign_fills_the_upper_bits_with_it(width: str, offset: int, value: int) -> None:
    """Page numbers and offsets of 8 and 16 bits below zero would be large; the last byte of a storage counts."""
    assert loaded(width, offset) == value


@pytest.mark.parametrize(("width", "value"), [(".S8", 0xFFFFFF80), (".U8", 0x80), (".S16", 0xFFFFFF80)])
def test_shared_memory_gives_narrow_loads_their_sign_too(width: str, value: int) -> None:
    """LDS as LDG."""
    threads = threads_at(0)
    threads.shared.store((word(0x400), True), [(word(0x007FFF80), True)], 4, TRUE[0])
    instruction = made_instruction(0, f"LDS{width}", "R4", "[0x400]")
    ((array, known),) = load_of(instruction, instruction.operands[1])(threads, TRUE[0])
    assert int(array.item()) == value and np.all(known)


@pytest.mark.parametrize(("inside", "value"), [(True, 7), (False, 0)])
def test_a_masked_copy_leaves_zeros(inside: bool, value: int) -> None:
    """What lies at its address is not for those that ask for zeros."""
    shared = SharedMemory()
    copied(shared, (word(0x400), True), [(word(7), True)], 4, TRUE[0], (truth(inside), True))
    ((array, known),) = shared.load((word(0x400), True), 4, TRUE[0])
    assert int(array.item()) == value and np.all(known)


def test_lanes_of_whom_it_is_not_known_take_part() -> None:
    """A mask that depends on data would make a kernel that touches nothing of one that may touch all."""
    load = made_instruction(0, "LDG.E", "R4", "desc[UR4][R2.64]", predicate="P0")
    threads = threads_at(0)
    lanes = {}
    for name, guard in (("unknown", UNKNOWN_FLAG), ("none", (truth(False), True)), ("all", TRUE)):
        threads.registers["P0"] = guard
        taken = Touch(load).lanes(threads, (1, 1, 32))
        assert taken is not None
        lanes[name] = int(taken[-1].sum())
    assert lanes == {"unknown": 32, "none": 0, "all": 32}
