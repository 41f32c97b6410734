"""What a key of an autotuner lacks: from the predicted times of shapes that share it."""

from tilesight.simulator.prediction.kernel_row import KernelRow
from tilesight.simulator.prediction.prediction import LaunchPrediction
from tilesight.simulator.traffic import Traffic

from tilesight.tuning.tune import key_notes
from tilesight.tuning.tuning import Configured, TunedLaunch, ranked


def launch(m: int, times_us: dict[int, float], *, key: str = "n", authors: bool = True) -> TunedLaunch:
    """A launch at a shape. Args: times_us: BLOCK -> predicted time."""
    shape = {"m": m, "n": 64}
    return TunedLaunch(
        kernel="k",
        shape=shape,
        key={key: shape[key]},
        configured=ranked(
            [Configured(values={"BLOCK": block}, row=row(us), authors=authors) for block, us in times_us.items()]
        ),
        default={},
        arguments=shape,
    )


def row(time_us: float) -> KernelRow:
    """A launch that takes so long."""
    prediction = LaunchPrediction.__new__(LaunchPrediction)
    object.__setattr__(prediction, "traffic", Traffic(time_s=time_us * 1e-6))
    return KernelRow(name="k", grid=(1, 1, 1), num_warps=4, num_stages=1, prediction=prediction)


def test_an_argument_that_changes_the_winner_is_named_with_what_that_costs() -> None:
    """The worst of the shapes; what is equal at all of them, or in the key, is not it."""
    (note,) = key_notes([launch(64, {1: 1.0, 2: 2.0}), launch(128, {1: 1.2, 2: 1.0}), launch(256, {1: 3.0, 2: 2.0})])
    assert note == (
        "kernel k: at m=256, n=64 it runs what was tuned at m=64, n=64, as both have the key n=64: BLOCK=1 takes 1.50x "
        "the time of the best there, BLOCK=2; add one of m (64, 256) to key"
    )


def test_a_key_that_tells_shapes_apart_lacks_nothing() -> None:
    """Nor one of shapes whose winner is the same as far as predictions tell, nor what a space alone configures."""
    narrow, wide = {1: 1.0, 2: 2.0}, {1: 2.0, 2: 1.0}
    assert not key_notes([launch(64, narrow, key="m"), launch(128, wide, key="m")])
    assert not key_notes([launch(64, narrow), launch(128, {1: 1.02, 2: 1.0})])
    assert not key_notes([launch(64, narrow, authors=False), launch(128, wide, authors=False)])
