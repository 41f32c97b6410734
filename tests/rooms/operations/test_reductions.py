"""Reductions whose values lie apart, or in several dimensions: held against an H200 and an H100 (torch 2.11)."""

from dataclasses import replace
from itertools import starmap

import pytest
from support.torch_prices import behind_a_flush, operation, tensor, time_of
from tilesight.simulator.device.device import Device, load_device
from tilesight.simulator.operations.operation import Operand, Operation

H100, H200 = load_device("h100"), load_device("h200")


def reduced(name: str, source: Operand, *made: int, axes: tuple[int, ...] = (-1,)) -> Operation:
    """A reduction to a shape of contiguous results."""
    return operation(name, (source,), (tensor(2, *made, dtype=source.dtype),), dim=list(axes))


def by_channel(number: int, dtype: str, groups: int, length: int) -> Operand:
    """Channels' groups of tokens, where channels lie together: 64 heads, 4,096 tokens, 128 channels."""
    heads = tensor(number, 8, 8, 128, groups, length, dtype=dtype)
    tokens = 128 * 4096
    return replace(heads, strides=(8 * tokens, tokens, 1, 128 * length, 128))


def points_last(number: int) -> Operand:
    """20 points of 36,000 pillars with 64 features, the points of a feature together."""
    return replace(tensor(number, 36000, 20, 64, dtype="float32"), strides=(1280, 1, 20))


def of_channels(number: int, dtype: str, batch: int, channels: int, side: int) -> Operation:
    """Gradients of channels' weights or biases: sums over images and places."""
    return reduced("sum", tensor(number, batch, channels, side, side, dtype=dtype), channels, axes=(0, 2, 3))


MEASURED_US = [
    (H200, reduced("amin", by_channel(1, "float16", 128, 32), 8, 8, 128, 128, 1), 357.0, 0.05),
    (H200, reduced("sum", by_channel(1, "int32", 256, 16), 8, 8, 128, 256), 290.6, 0.05),
    (H200, reduced("amax", points_last(1), 36000, 64, axes=(1,)), 299.0, 0.08),
    (H200, reduced("amax", tensor(1, 2000, 4, 32, 300), 2000, 4, 32), 121.6, 0.15),
    (H200, reduced("amax", tensor(1, 2, 64, 1000, 1001), 2, 64, 1000, 1), 119.6, 0.1),
    (H200, of_channels(1, "bfloat16", 16, 64, 112), 31.3, 0.1),
    (H200, of_channels(1, "bfloat16", 8, 256, 32), 6.5, 0.1),
    (H200, of_channels(1, "bfloat16", 2, 3, 512), 9.7, 0.17),
    (H200, of_channels(1, "float32", 16, 64, 112), 33.5, 0.1),
    (H100, of_channels(1, "bfloat16", 4, 256, 128), 35.8, 0.2),
]
"""What the kernels took [us], and how far off prices may be. Nothing was read off the sum of int32 nor the maxima of
1,001; the sum on an H100 ran in a training step, with a part of its input in L2."""


@pytest.mark.parametrize(
    ("device", "work", "measured_us", "tolerance"),
    MEASURED_US,
    ids=list(starmap(lambda _, work, us, __: f"{work.name}-{us}", MEASURED_US)),
)
def test_reductions_take_as_long_as_was_measured(
    device: Device, work: Operation, measured_us: float, tolerance: float
) -> None:
    """Behind an overwritten L2, with the memset where CTAs share an output."""
    time_s = sum(kernel.time_s for kernel in behind_a_flush(device, work))
    assert 1e6 * time_s == pytest.approx(measured_us, rel=tolerance)


def test_results_kept_in_another_order_make_lanes_ask_for_sectors() -> None:
    """Minima of channels' groups: in the order of the source they would be walked down, channels beside each other."""
    source = by_channel(1, "float16", 128, 32)
    apart = reduced("amin", source, 8, 8, 128, 128)
    (made,) = apart.outputs
    together = replace(apart, outputs=(replace(made, strides=(1 << 17, 1 << 14, 1, 128)),))
    assert time_of(H200, apart) > 10 * time_of(H200, together)


def test_dimensions_that_lie_behind_each_other_are_one() -> None:
    """Sums over all but the last, or the last, of contiguous dimensions need no index arithmetic."""
    source = tensor(1, 64, 32, 32, 128)
    for axes, left, flat, flat_axes in (
        ((0, 1, 2), (128,), (65536, 128), (0,)),
        ((1, 2, 3), (64,), (64, 131072), (1,)),
    ):
        joined = reduced("sum", tensor(1, *flat), *left, axes=flat_axes)
        assert time_of(H200, reduced("sum", source, *left, axes=axes)) == time_of(H200, joined)


def test_lanes_ask_l1_once_for_elements_that_are_broadcast() -> None:
    """Each of 128 channels' groups of 32 tokens, less its least of a group, as a two-bit cache takes them: 153.1 us."""
    groups, least = by_channel(1, "float16", 128, 32), tensor(3, 8, 8, 128, 128, 1, dtype="float16")
    (kernel,) = behind_a_flush(H200, operation("sub", (groups, least), (replace(groups, storage=2),)))
    assert (kernel.name, kernel.time_s) == ("elementwise", pytest.approx(153.1e-6, rel=0.05))


def test_lanes_that_turn_to_neighbours_share_their_lines() -> None:
    """Runs of 20 fp32 in a warp of 32: turned copies of longer runs cost more an element."""
    times = []
    for count, run in ((36000, 20), (18000, 40)):
        source = replace(tensor(1, count, 64, run, dtype="float32"), strides=(64 * run, 1, 64))
        times.append(time_of(H200, operation("clone", (source,), (tensor(2, count, 64, run, dtype="float32"),))))
    assert times[0] < 0.9 * times[1]
