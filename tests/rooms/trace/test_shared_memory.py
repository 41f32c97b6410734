"""Shared memory of many CTAs, byte by byte."""

import numpy as np
from tilesight.simulator.trace.shared_memory import SYSTEM_BYTES, SharedMemory
from tilesight.simulator.trace.values import Array, Value, word

BASE = SYSTEM_BYTES
LANE = np.arange(32, dtype=np.int64).reshape(1, 1, 32)
EVERY = np.ones((1, 1, 32), dtype=np.bool_)


def given(array: Array) -> Value:
    """A value that is known."""
    return array, True


def known(value: Value) -> list[bool]:
    """Where a value is known, lane by lane."""
    return np.broadcast_to(value[1], (1, 1, 32)).ravel().tolist()


def test_a_lane_loads_what_another_has_stored() -> None:
    """Words that are stored in one order of lanes, and loaded in another."""
    memory = SharedMemory()
    memory.store(given(BASE + 4 * LANE), [given(LANE * 1000)], 4, EVERY)
    ((words, sure),) = memory.load(given(BASE + 4 * (31 - LANE)), 4, EVERY)
    assert words.ravel().tolist() == [1000 * (31 - lane) for lane in range(32)]
    assert sure is True


def test_ctas_have_memories_of_their_own() -> None:
    """What is the same in all is kept once until they differ."""
    memory = SharedMemory()
    memory.store(given(word(BASE)), [given(word(5))], 4, EVERY)
    cta = np.arange(3, dtype=np.int64).reshape(3, 1, 1)
    memory.store(given(BASE + 4 + 4 * cta), [given(cta + 70)], 4, EVERY)
    ((same, _),) = memory.load(given(word(BASE)), 4, EVERY)
    ((words, _),) = memory.load(given(BASE + 4 + 4 * cta), 4, EVERY)
    assert np.broadcast_to(same, (3, 1, 1)).ravel().tolist() == [5, 5, 5]
    assert words.ravel().tolist() == [70, 71, 72]
    ((_, sure),) = memory.load(given(word(BASE + 4)), 4, EVERY)
    assert np.asarray(sure).ravel().tolist() == [True, False, False]


def test_bytes_are_parts_of_words() -> None:
    """A word that is stored whole and loaded by bytes, and another way round; vectors are several words."""
    memory = SharedMemory()
    memory.store(given(word(BASE)), [given(word(0x44332211)), given(word(0x88776655))], 8, EVERY)
    assert [memory.load(given(word(BASE + at)), 1, EVERY)[0][0].item() for at in (0, 3, 4)] == [0x11, 0x44, 0x55]
    memory.store(given(word(BASE + 1)), [given(word(0xFF))], 1, EVERY)
    assert [value.item() for value, _ in memory.load(given(word(BASE)), 8, EVERY)] == [0x4433FF11, 0x88776655]


def test_what_nobody_has_stored_is_not_known() -> None:
    """Nor what threads that were masked have not; the system's own part is cleared."""
    memory = SharedMemory()
    memory.store(given(BASE + 4 * LANE), [given(LANE)], 4, LANE < 8)
    assert known(memory.load(given(BASE + 4 * LANE), 4, EVERY)[0]) == [lane < 8 for lane in range(32)]
    ((cleared, sure),) = memory.load(given(word(0)), 4, EVERY)
    assert (cleared.item(), sure) == (0, True)


def test_data_that_nobody_knows_take_the_place_of_what_was_known() -> None:
    """At its address; at an address that is not known, of all."""
    memory = SharedMemory()
    memory.store(given(BASE + 4 * LANE), [given(LANE)], 4, EVERY)
    memory.store(given(word(BASE + 8)), [(word(0), False)], 4, EVERY)
    assert known(memory.load(given(BASE + 4 * LANE), 4, EVERY)[0]) == [lane != 2 for lane in range(32)]
    memory.store((word(0), False), [given(word(1))], 4, EVERY)
    assert not any(known(memory.load(given(BASE + 4 * LANE), 4, EVERY)[0]))
