"""The line-exact cache: against ten obvious lines, against stack distances, and chunks against their lines."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import lru_cache, stack_distances
from tilesight.simulator.engine.cache import MOST_LINES, MOST_WAYS_SHIFTED, CacheRun, run_cache

LINE = 128
STREAMS = st.lists(st.tuples(st.integers(0, 40), st.booleans()), max_size=200)


@given(stream=STREAMS, sets=st.integers(1, 5), ways=st.sampled_from((1, 2, 4, 16, MOST_WAYS_SHIFTED, 70)))
def test_a_cache_counts_what_ten_obvious_lines_count(stream: list[tuple[int, bool]], sets: int, ways: int) -> None:
    """Misses and write-backs, whether sets are arrays or linked lists."""
    lines, writes = [line for line, _ in stream], [write for _, write in stream]
    seen = run_cache(lines, capacity_bytes=sets * ways * LINE, ways=ways, writes=writes)
    misses, written_back = lru_cache(lines, writes, sets, ways)
    assert seen == CacheRun(accesses=len(stream), misses=misses, written_back=written_back)


@given(lines=st.lists(st.integers(0, 200), max_size=300), capacity=st.sampled_from((1, 3, 64, 65, 100)))
def test_without_sets_an_access_hits_if_its_stack_distance_is_below_the_capacity(
    lines: list[int], capacity: int
) -> None:
    """Full associativity, by the definition of LRU; with and without linked lists."""
    seen = run_cache(lines, capacity_bytes=capacity * LINE, ways=0)
    assert seen.hits == sum(0 <= distance < capacity for distance in stack_distances(lines))
    assert seen.written_back == 0


@settings(max_examples=50)
@given(
    stream=STREAMS,
    chunk_lines=st.sampled_from((1, 2, 4, 8)),
    groups=st.integers(1, 3),
    ways=st.sampled_from((1, 2, 4, 70, 0)),
)
def test_chunks_count_exactly_what_their_lines_count(
    stream: list[tuple[int, bool]], chunk_lines: int, groups: int, ways: int
) -> None:
    """A chunk touched as a whole, against its lines one after the other."""
    chunks, writes = np.array([(c, w) for c, w in stream], dtype=np.int64).reshape(-1, 2).T
    capacity_bytes = groups * chunk_lines * max(ways, 1) * LINE
    lines = (chunks[:, None] * chunk_lines + np.arange(chunk_lines)).ravel()
    by_chunk = run_cache(chunks, capacity_bytes=capacity_bytes, ways=ways, chunk_lines=chunk_lines, writes=writes)
    by_line = run_cache(lines, capacity_bytes=capacity_bytes, ways=ways, writes=np.repeat(writes, chunk_lines))
    assert by_chunk == by_line


@pytest.mark.parametrize("ways", [16, 128, 0])
def test_a_loop_of_one_line_too_much_never_hits(ways: int) -> None:
    """Any associativity: 1024 lines looped over hit from the second time on, 1024 and a set more never hit again."""
    capacity = 1024
    fits = np.tile(np.arange(capacity), 3)
    too_much = np.tile(np.arange(capacity + (capacity // ways if ways else 1)), 3)
    assert run_cache(fits, capacity_bytes=capacity * LINE, ways=ways).misses == capacity
    assert run_cache(too_much, capacity_bytes=capacity * LINE, ways=ways).misses == len(too_much)


def test_an_empty_stream_touches_nothing() -> None:
    """All counts are zero."""
    for ways in (0, 1, 8, 128):
        assert run_cache([], capacity_bytes=128 * LINE, ways=ways) == CacheRun(accesses=0, misses=0, written_back=0)


@pytest.mark.parametrize(
    ("numbers", "options", "said"),
    [
        ([0], {"capacity_bytes": 1000, "ways": 4}, "capacity_bytes = 1000"),
        ([0], {"capacity_bytes": 0, "ways": 0}, "capacity_bytes = 0"),
        ([0], {"capacity_bytes": 4096, "ways": 4, "chunk_lines": 3}, "chunk_lines = 3"),
        ([0], {"capacity_bytes": 4096, "ways": 4, "chunk_lines": 0}, "chunk_lines = 0"),
        ([-1], {"capacity_bytes": 4096, "ways": 4}, "numbers"),
        ([MOST_LINES], {"capacity_bytes": 4096, "ways": 4}, "numbers"),
        ([0, 1], {"capacity_bytes": 4096, "ways": 4, "writes": [True]}, "shapes"),
    ],
)
def test_sizes_that_do_not_go_together_are_refused(numbers: list[int], options: dict[str, int], said: str) -> None:
    """One line that names the argument."""
    with pytest.raises(ValueError, match=said) as caught:
        run_cache(numbers, **options)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)
