"""Where the best configuration reads K and V again: what is named in its place."""

from collections.abc import Sequence
from dataclasses import replace

from support.made_up import SOME_TRAFFIC, a_launch, a_prediction
from tilesight.simulator.device.device import load_device
from tilesight.simulator.explore.candidate import Candidate
from tilesight.simulator.explore.remarks import crowded_notes

H200 = load_device("h200")


def candidate(block_m: int, time_s: float, read_bytes: int, fit: str = "") -> Candidate:
    """A configuration, with what HBM reads. Args: fit: how K and V fit L2; empty: they do."""
    traffic = replace(SOME_TRAFFIC, time_s=time_s, hbm_read_bytes=read_bytes)
    prediction = a_prediction(a_launch(traffic=traffic, l2_fit=fit))
    config = prediction.config.but(block_m=block_m)
    return Candidate(schedule="flash2", config=config, options=("block_m",), prediction=prediction)


def none_tried(items: Sequence[Candidate]) -> list[Candidate]:
    """No other order is simulated."""
    assert not items
    return []


CROWDED = candidate(16, 1e-3, 100_000_000, "beyond")


def test_the_fastest_configuration_that_keeps_keys_in_l2_is_named() -> None:
    """Of those that read at most half; one that reads a little less is no way out."""
    ranked = [
        CROWDED,
        candidate(32, 2e-3, 60_000_000),
        candidate(64, 3e-3, 50_000_000),
        candidate(128, 4e-3, 1_000_000),
    ]
    row, notes = crowded_notes(ranked, H200, none_tried)
    assert row == 1 and "block m 64" in notes[-1] and "50.0 MB from HBM" in notes[-1] and "3.00 ms" in notes[-1]


def test_where_no_configuration_keeps_them_that_is_said() -> None:
    """And where none is crowded, nothing is."""
    row, notes = crowded_notes([candidate(32, 1e-3, 1), CROWDED], H200, none_tried)
    assert row == 2 and "block m 32" in notes[-1]
    assert crowded_notes([CROWDED, candidate(32, 2e-3, 60_000_000)], H200, none_tried)[1][-1].startswith("no other")
    assert crowded_notes([candidate(32, 2e-3, 60_000_000)], H200, none_tried) == (0, ())
