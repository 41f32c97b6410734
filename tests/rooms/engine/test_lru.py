"""The linked lists of the L2: against ten obvious lines."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.oracles import lru_cache
from tilesight.simulator.core.engine.lru import (
    DIRTY,
    STATE,
    USED,
    drop,
    insert,
    is_present,
    make_lru,
    mark_dirty,
    touch,
)

ENTRIES = 41
STREAMS = st.lists(st.tuples(st.integers(0, ENTRIES - 1), st.booleans()), max_size=200)


def run(stream: list[tuple[int, bool]], sets: int, ways: int, dirty_fraction: float = 1.0) -> tuple[int, int]:
    """Feed entries of size 1 to one list per set. Returns: (misses, entries written back)."""
    lru = make_lru(ENTRIES, np.full(sets, ways), dirty_fraction)
    misses = written_back = 0
    for number, write in stream:
        if not is_present(lru, number):
            misses += 1
            written_back += insert(lru, number % sets, number, 1, False)
        else:
            touch(lru, number % sets, number)
        if write:
            written_back += mark_dirty(lru, number % sets, number, False)
    return misses, written_back


@given(stream=STREAMS, sets=st.integers(1, 5), ways=st.sampled_from((1, 2, 4, 16)))
def test_lists_count_what_ten_obvious_lines_count(stream: list[tuple[int, bool]], sets: int, ways: int) -> None:
    """Misses and write-backs, for any number of sets and ways."""
    lines, writes = [line for line, _ in stream], [write for _, write in stream]
    assert run(stream, sets, ways) == lru_cache(lines, writes, sets, ways)


@pytest.mark.parametrize(("loop", "misses"), [(8, 8), (9, 27)])
def test_a_loop_of_one_entry_too_much_never_hits(loop: int, misses: int) -> None:
    """Eight entries looped over three times hit from the second time on; nine never."""
    assert run([(number, False) for number in range(loop)] * 3, 1, 8) == (misses, 0)


def test_beyond_the_most_that_may_be_dirty_the_oldest_write_goes_first() -> None:
    """Of three writes into a list that may hold two dirty entries, the first is written back, and stays as clean."""
    lru = make_lru(ENTRIES, np.array([4]), 0.5)
    written = []
    for number in (7, 8, 7, 9):
        if not is_present(lru, number):
            insert(lru, 0, number, 1, False)
        written.append(mark_dirty(lru, 0, number, False))
    assert written == [0, 0, 0, 1]
    # 7 was written again after 8, so 8 is the oldest.
    assert [number for number in (7, 8, 9) if lru.entries[number, STATE] == DIRTY] == [7, 9]
    assert lru.lists[0, USED] == 3


def test_what_is_dropped_leaves_room_and_says_whether_it_was_dirty() -> None:
    """A clean entry costs nothing to drop, a dirty one its size."""
    lru = make_lru(ENTRIES, np.array([4]))
    for number in (1, 2):
        insert(lru, 0, number, 1, False)
    mark_dirty(lru, 0, 2, False)
    assert [drop(lru, 0, number) for number in (1, 2)] == [0, 1]
    assert lru.lists[0, USED] == 0
