"""Advice names the illness that a kernel has, and what it says a cure brings is what the cured kernel is predicted."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tilesight.kernels.launch.availability import missing_package

if missing_package():
    pytest.skip(str(missing_package()), allow_module_level=True)
import ailing_kernels
from ailing_kernels import blended, multiplied, paged, scaled, strided, summed, tiles_transposed, transposed, weighed

from tilesight import capture, predict
from tilesight.predicting import KernelsPrediction

DEVICE = "h100-sxm"


def predicted(launches: Callable[[], None]) -> KernelsPrediction:
    """What a function launches, predicted."""
    with capture(DEVICE) as recorded:
        launches()
    return predict(recorded, DEVICE)


def product(tile: tuple[int, int, int], num_stages: int) -> None:
    """A product of square matrices, with tiles small enough for several CTAs an SM."""
    multiplied(2048, 2048, 2048, tile, num_warps=4, num_stages=num_stages)


@pytest.mark.parametrize(
    ("ill", "cured", "cause"),
    [
        (lambda: strided(8), lambda: strided(1), "uncoalesced"),
        (lambda: strided(2), lambda: strided(1), "uncoalesced"),
        (lambda: scaled(True), lambda: scaled(False), "uncoalesced"),
        (lambda: blended(80), lambda: blended(128), "spills"),
        (lambda: blended(64), lambda: blended(128), "spills"),
        (lambda: summed(True), lambda: summed(False), "atomics"),
        (lambda: paged(True), lambda: paged(False), "dependent loads"),
        (lambda: tiles_transposed(1), lambda: tiles_transposed(32), "bank conflicts"),
        (lambda: weighed(False), lambda: weighed(True), "read again"),
        (lambda: product((64, 64, 64), 2), lambda: product((64, 64, 64), 3), "stages"),
        (lambda: product((64, 128, 32), 2), lambda: product((64, 128, 32), 3), "stages"),
        (lambda: product((64, 64, 64), 1), lambda: product((64, 64, 64), 3), "stages"),
    ],
    ids=[
        "stride 8",
        "stride 2",
        "scales",
        "few spills",
        "spills",
        "atomics",
        "pages",
        "tiles",
        "weights",
        "64 x 64",
        "64 x 128",
        "1 stage",
    ],
)
def test_the_gain_that_is_said_is_that_of_the_cured_kernel(
    ill: Callable[[], None], cured: Callable[[], None], cause: str
) -> None:
    """Within a factor of two of the time saved, each compiled and predicted by itself."""
    prediction = predicted(ill)
    said = {advice.cause: advice.gain for advice in prediction.helps}
    assert cause in said, prediction.helps
    saved = prediction.total.time_s / predicted(cured).total.time_s - 1.0
    gain = (said[cause] or 0.0) - 1.0
    assert saved / 2 <= gain <= 2 * saved, (gain, saved)


@pytest.mark.parametrize(
    ("ill", "cause", "words", "source"),
    [
        (lambda: strided(8), "uncoalesced", "4 of each 32 B that a warp touches", "i * STRIDE"),
        (lambda: summed(True), "atomics", "33.6 MB are added to 4.10 kB", "tl.atomic_add"),
        (lambda: multiplied(512, 640, 2048, (128, 128, 64), 8, 3), "idle SMs", "20 CTAs leave 112 of 132 SMs", ""),
        (
            lambda: tiles_transposed(1),
            "bank conflicts",
            "takes 32 cycles in place of 1 for an access",
            "tile.load(columns)",
        ),
        (transposed, "idle threads", "there is work for 1 of its 128 threads", ""),
        (lambda: blended(64), "spills", "208 B per thread go to local memory and back", ""),
    ],
    ids=["stride", "atomics", "few CTAs", "tiles", "elements", "spills"],
)
def test_the_first_line_is_what_a_colleague_would_say(
    ill: Callable[[], None], cause: str, words: str, source: str
) -> None:
    """The cause by its name, with what it is seen by, and the line of the source where there is one."""
    first, *_ = predicted(ill).helps
    lines = Path(ailing_kernels.__file__).read_text("utf-8").splitlines()
    at = next((f" at line {number}" for number, line in enumerate(lines, 1) if source and source in line), "")
    assert first.cause == cause and words + at in first.text and (first.gain or 0.0) > 1.5


@pytest.mark.parametrize(
    "ill", [lambda: summed(True), lambda: strided(8), transposed], ids=["sums", "stride", "elements"]
)
def test_no_loop_is_advised_that_a_kernel_has_not(ill: Callable[[], None]) -> None:
    """`num_stages` is for pipelined loops alone."""
    text = str(predicted(ill))
    assert "Helps" in text and "num_stages" not in text


def test_a_kernel_at_the_rate_of_hbm_is_told_nothing_but_that() -> None:
    """Whatever else it waits for hides behind the bytes."""
    helps = predicted(lambda: strided(1, 1 << 24)).helps
    assert [(advice.cause, advice.gain) for advice in helps] == [("hbm", None)]
