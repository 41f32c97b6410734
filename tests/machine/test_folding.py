"""Large scratch is folded: numbers of granules repeat, and data do not."""

import pytest
from machine.toys import GPU, TILE_BYTES, run, sweeps
from tilesight.simulator import lower

SLAB_TILES = 1024


def test_ctas_windows_apart_find_nothing_of_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two CTAs that walk slabs of their own in step would share half of what they read."""
    launch = sweeps(tiles=SLAB_TILES, times=1, slabs=(0, 1), role="scratch")
    whole = run(launch).hbm_read_bytes
    monkeypatch.setattr(lower, "FOLD_ABOVE_GRANULES", 64)
    _, _, granules = lower.lower_tensors((launch,), GPU, "chunk")
    assert granules < 2 * SLAB_TILES
    assert run(launch).hbm_read_bytes == whole == 2 * SLAB_TILES * TILE_BYTES
