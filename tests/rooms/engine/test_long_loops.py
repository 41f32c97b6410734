"""Trips of long loops that repeat are skipped, by all CTAs together: toys whose CTAs sweep tiles of their own."""

import pytest
from machine.toys import TILE_BYTES, run, sweeps
from tilesight.simulator.engine import long_loops

TRIPS = 60_000


def test_a_sweep_that_nobody_shares_is_skipped_and_counted() -> None:
    """Four CTAs read 60,000 tiles each, once: every byte, in the time that stepping through all of them takes."""
    launch = sweeps(tiles=TRIPS, times=1, slabs=range(4), stages=2)
    seen, whole = (run(launch, steady_state=steady) for steady in (True, False))
    assert seen.simulated_fraction < 0.6
    assert whole.simulated_fraction == 1
    assert seen.hbm_read_bytes == pytest.approx(4 * TRIPS * TILE_BYTES, rel=0.001)
    assert seen.l2_read_bytes == pytest.approx(whole.l2_read_bytes, rel=0.001)
    assert seen.cycles == pytest.approx(whole.cycles, rel=0.005)


def test_a_sweep_that_all_share_is_stepped_through_until_patience_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """CTAs that load the same in step may fall out of it: so many steps as there is patience for have to show it."""
    launch = sweeps(tiles=TRIPS, times=1, slabs=[0] * 4, stages=2)
    assert run(launch, steady_state=True).simulated_fraction == 1
    monkeypatch.setattr("tilesight.simulator.engine.extrapolate.PATIENCE_STEPS", 1)
    assert run(launch, steady_state=True).simulated_fraction < 1


def test_a_short_loop_is_not_looked_at() -> None:
    """As many steps in loops of fewer trips than are worth it."""
    launch = sweeps(tiles=long_loops.LEAST_TRIPS - 1, times=TRIPS // long_loops.LEAST_TRIPS, slabs=range(4))
    assert run(launch, steady_state=True).simulated_fraction == 1
