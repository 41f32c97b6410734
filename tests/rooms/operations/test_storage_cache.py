"""L2 between operations: no byte is lost, and what is kept is what was touched last."""

from hypothesis import given
from hypothesis import strategies as st
from tilesight.simulator.device.device import load_device
from tilesight.simulator.operations.storage_cache import StorageCache

H200 = load_device("h200")
SIZES = st.floats(1.0, 4.0 * H200.l2_bytes)


@given(st.lists(st.tuples(st.booleans(), SIZES), max_size=30))
def test_every_written_byte_reaches_hbm_once(touches: list[tuple[bool, float]]) -> None:
    """Writes to storages of their own, reads between them: what was written is in HBM, or still to be written."""
    cache, to_hbm, written = StorageCache(H200), 0.0, 0.0
    for number, (is_write, size) in enumerate(touches):
        if is_write:
            to_hbm += cache.write(number, size)
            written += size
        else:
            sent, left = cache.read(number, size)
            assert sent == size
            to_hbm += left
        assert cache.unwritten_bytes <= cache.dirty_bytes * (1 + 1e-9)
    assert abs(to_hbm + cache.unwritten_bytes - written) <= 1e-6 * max(written, 1.0)


@given(st.lists(st.tuples(st.integers(0, 4), st.booleans(), SIZES), max_size=30))
def test_hbm_never_moves_more_than_was_asked(touches: list[tuple[int, bool, float]]) -> None:
    """Storages that come again too: reads are at most what is read, writes at most what was written."""
    cache, asked, stored, moved, to_hbm = StorageCache(H200), 0.0, 0.0, 0.0, 0.0
    for number, is_write, size in touches:
        if is_write:
            to_hbm, stored = to_hbm + cache.write(number, size), stored + size
        else:
            sent, left = cache.read(number, size)
            moved, to_hbm, asked = moved + sent, to_hbm + left, asked + size
    assert moved <= asked * (1 + 1e-9)
    assert to_hbm + cache.unwritten_bytes <= stored * (1 + 1e-9)


def test_a_small_storage_is_found_again_and_a_large_one_sweeps_it() -> None:
    """One of half of L2 is found again, whether it was read or written; behind one of all L2 neither is."""
    cache, small = StorageCache(H200), H200.l2_bytes / 3
    cache.read(1, small)
    assert cache.read(1, small)[0] == 0.0
    cache.write(2, small)
    assert cache.read(2, small)[0] == 0.0
    cache.read(3, 2.0 * H200.l2_bytes)
    assert cache.read(2, small)[0] == small
    assert cache.read(3, 2.0 * H200.l2_bytes)[0] == 2.0 * H200.l2_bytes


def test_who_reads_a_part_takes_nothing_from_who_reads_all() -> None:
    """Behind a read of a half, all of a storage is still there."""
    cache, small = StorageCache(H200), H200.l2_bytes / 3
    cache.read(1, small)
    assert cache.read(1, small / 2)[0] == 0.0
    assert cache.read(1, small)[0] == 0.0
