"""Shared memory of many CTAs, byte by byte."""

import numpy as np
from tilesight.simulator.emulator.shared_memory import SYSTEM_BYTES, SharedMemory
from tilesight.simulator.emulator.thread_values import Array, Value, word

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


class Bytes:
    """The same memory as a dictionary for each CTA: byte -> value, or None where it is not known."""

    def __init__(self, ctas: int) -> None:
        self.ctas: list[dict[int, int | None]] = [{} for _ in range(ctas)]

    def store(self, places: Array, words: list[Value], size: int, mask: Array) -> None:
        """As of `SharedMemory`, thread by thread."""
        shape = (len(self.ctas), *mask.shape[1:])
        for cta, warp, lane in np.ndindex(*shape):
            at = cta, warp, lane
            if not np.broadcast_to(mask, shape)[at]:
                continue
            for offset in range(size):
                array, sure = (np.broadcast_to(part, shape)[at] for part in words[offset // 4])
                byte = int(array) >> 8 * (offset % 4) & 255
                self.ctas[cta][int(np.broadcast_to(places, shape)[at]) + offset] = byte if sure else None

    def word(self, cta: int, place: int, size: int) -> int | None:
        """What a thread loads."""
        bytes_ = [self.ctas[cta].get(place + offset, 0 if place < SYSTEM_BYTES else None) for offset in range(size)]
        return None if None in bytes_ else sum((byte or 0) << 8 * at for at, byte in enumerate(bytes_))


def drawn(draw: np.random.Generator, ctas: int) -> tuple[Array, list[Value], int, Array]:
    """A store of some CTAs and threads, of words some of which are known: as `SharedMemory.store` takes it."""
    size = int(draw.choice((1, 2, 4, 8, 16)))
    shapes = [(int(draw.choice((1, ctas))), 2, 8) for _ in range(3)]
    begin = int(draw.choice((0x100, SYSTEM_BYTES, SYSTEM_BYTES + 64)))
    order = draw.permuted(np.broadcast_to(np.arange(16), (shapes[0][0], 16)), axis=1).reshape(shapes[0])
    sure: Array = draw.random(shapes[1]) < draw.choice((0.0, 0.3, 1.0))
    words = [
        (draw.integers(0, 1 << 32, shapes[2]), [True, False, sure][draw.integers(3)]) for _ in range(max(1, size // 4))
    ]
    masks = [np.ones((1, 2, 8), dtype=np.bool_), draw.random((ctas, 1, 1)) < 0.5, draw.random((ctas, 2, 8)) < 0.5]
    return begin + size * order, words, size, np.broadcast_to(masks[draw.integers(3)], (ctas, 2, 8))


def test_what_ctas_load_is_what_their_bytes_hold() -> None:
    """Stores of any size, by CTAs alike and each by itself, known and not, held against byte after byte."""
    for seed in range(40):
        draw, ctas = np.random.default_rng(seed), 3
        memory, bytes_of = SharedMemory(), Bytes(ctas)
        for _ in range(6):
            places, words, size, mask = drawn(draw, ctas)
            memory.store(given(places), words, size, mask)
            bytes_of.store(places, words, size, mask)
        size = int(draw.choice((1, 2, 4)))
        places = 0x100 + size * draw.integers(0, 0x500 // size, (ctas, 1, 64))
        ((array, sure),) = memory.load(given(places), size, np.ones((ctas, 1, 64), dtype=np.bool_))
        loaded = np.where(np.broadcast_to(sure, places.shape), np.broadcast_to(array, places.shape), -1)
        expected = [[bytes_of.word(cta, int(place), size) for place in places[cta].ravel()] for cta in range(ctas)]
        assert loaded.reshape(ctas, -1).tolist() == [
            [-1 if word is None else word for word in words] for words in expected
        ]


def test_what_is_not_known_is_not_kept() -> None:
    """Copies of data that nobody gave take no memory, however many there are."""
    memory = SharedMemory()
    for at in range(16):
        memory.store(given(BASE + 512 * at + 16 * LANE), [(word(0), False)] * 4, 16, EVERY)
    assert memory._bytes.size == 0
    assert known(memory.load(given(BASE + 4 * LANE), 4, EVERY)[0]) == [False] * 32
