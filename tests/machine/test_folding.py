"""Large scratch is folded: numbers of granules repeat, and data do not."""

import pytest
from machine.toys import GPU, ONE_PARTITION, TILE_BYTES, cost, run, run_all, sweeps, writes
from tilesight.simulator.engine import lower

SLAB_TILES = 1024


def test_ctas_windows_apart_find_nothing_of_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two CTAs that walk slabs of their own in step would share half of what they read."""
    launch = sweeps(tiles=SLAB_TILES, times=1, slabs=(0, 1), role="scratch")
    whole = run(launch).hbm_read_bytes
    monkeypatch.setattr(lower, "FOLD_ABOVE_GRANULES", 64)
    granules = lower.lower_tensors((launch,), GPU, "chunk").granules
    assert granules < 2 * SLAB_TILES
    assert run(launch).hbm_read_bytes == whole == 2 * SLAB_TILES * TILE_BYTES


def test_what_windows_overwrite_is_written_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Output of two CTAs whose tiles share numbers would be lost, and count once."""
    launch, in_step = writes(tiles=SLAB_TILES, slabs=(0, 1), role="scratch"), {"store": cost(100)}
    whole = run(launch, gpu=ONE_PARTITION, costs=in_step).hbm_write_bytes
    assert whole == 2 * SLAB_TILES * TILE_BYTES - GPU.l2_bytes
    monkeypatch.setattr(lower, "FOLD_ABOVE_GRANULES", 64)
    folded = run(launch, gpu=ONE_PARTITION, costs=in_step).hbm_write_bytes
    assert whole <= folded <= 2 * SLAB_TILES * TILE_BYTES


@pytest.mark.parametrize("slab", [0, 16, 40])
def test_a_window_finds_its_own_data_again(slab: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scratch that fits L2 would be read from device memory, wherever in its tensor it lies."""
    monkeypatch.setattr(lower, "FOLD_ABOVE_GRANULES", 64)
    rest = writes(tiles=32, slabs=(slab, 40), role="scratch")
    again = sweeps(tiles=32, times=2, slabs=(slab, 40), name="Y", role="scratch")
    assert lower.lower_tensors((rest, again), GPU, "chunk").granules < 41 * 32
    assert [seen.hbm_read_bytes for seen in run_all(rest, again, gpu=ONE_PARTITION)] == [0, 0]
