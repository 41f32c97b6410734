"""Convolutions of groups, of few filters, over volumes and transposed, held against what an H200 took."""

import json
import lzma
import re
from collections.abc import Callable
from dataclasses import replace
from statistics import mean

import pytest
from support.torch_prices import channels_last, kernels_of, operation, script, tensor, time_of
from tilesight.simulator.device.device import load_device
from tilesight.simulator.operations.operation import Operation

H200 = load_device("h200")
MEASURED = "torch-rare-convolutions-h200-2026-11-28"
DTYPES = {"bf16": "bfloat16", "f32": "float32"}
GROUPED = re.compile(r"conv groups (\w+) 16x(\d+)x(\d+) g(\d+)")
FEW = re.compile(r"conv (\w+) (nchw|nhwc) 4x(\d+)>(\d+)x(\d+) k3")
VOLUME = re.compile(r"conv3d (\w+) (\d+)x(\d+)>(\d+)x(\d+)x(\d+)")
BACKWARD = re.compile(r"conv_transpose (\w+) 8x(\d+)>(\d+)x(\d+) k(\d) backward")
APART = "conv groups bf16 16x128x28 g2"
"""cuDNN makes each of its two groups by itself, all kernels of it: see `test_wide_groups.py`."""
DIRECT = ("conv f32 nhwc 4x64>1x256 k3", "conv f32 nhwc 4x64>3x256 k3")
"""cuDNN takes a kernel without tensor cores, for 0.9 ms; why is not known."""


def grouped(dtype: str, channels: str, side: str, groups: str) -> Operation:
    image = tensor(0, 16, int(channels), int(side), int(side), dtype=DTYPES[dtype])
    weights = tensor(1, int(channels), int(channels) // int(groups), 3, 3, dtype=DTYPES[dtype])
    return operation("convolution", (image, weights), (replace(image, storage=2),), groups=int(groups))


def few(dtype: str, layout: str, source: str, made: str, side: str) -> Operation:
    laid = channels_last if layout == "nhwc" else tensor
    sizes = (
        (4, int(source), int(side), int(side)),
        (int(made), int(source), 3, 3),
        (4, int(made), int(side), int(side)),
    )
    image, weights, output = (laid(number, *size, dtype=DTYPES[dtype]) for number, size in enumerate(sizes))
    return operation("convolution", (image, weights), (output,))


def volume(dtype: str, *sizes: str) -> Operation:
    batch, source, made, depth, side = map(int, sizes)
    shapes = ((batch, source, depth, side, side), (made, source, 3, 3, 3), (batch, made, depth, side, side))
    image, weights, output = (tensor(number, *shape, dtype=DTYPES[dtype]) for number, shape in enumerate(shapes))
    return operation("convolution", (image, weights), (output,))


def transposed_backward(dtype: str, *sizes: str) -> Operation:
    source, made, side, window = map(int, sizes)
    wide = 2 * (side - 1) + window
    shapes = ((8, made, wide, wide), (8, source, side, side), (source, made, window, window))
    gradient, image, weights = (tensor(number, *shape, dtype=DTYPES[dtype]) for number, shape in enumerate(shapes))
    made_of = (replace(image, storage=3), replace(weights, storage=4))
    return operation("convolution_backward", (gradient, image, weights), made_of, transposed=True)


def errors_of(name: re.Pattern[str], make: Callable[..., Operation]) -> dict[str, float]:
    """By name: predicted over measured, less one."""
    errors = {}
    with lzma.open(script().DATA / f"{MEASURED}.ndjson.xz", "rt") as lines:
        for row in map(json.loads, lines):
            if (match := name.fullmatch(row["name"])) and row["name"] not in (APART, *DIRECT):
                measured_s = sum(us for _, us in row["cold"]) * 1e-6
                errors[row["name"]] = time_of(H200, make(*match.groups())) / measured_s - 1.0
    return errors


@pytest.mark.parametrize(
    ("name", "make", "count", "most_mean", "most"),
    [
        (GROUPED, grouped, 7, 0.10, 0.17),  # the first two are what the one constant was read off
        (FEW, few, 14, 0.12, 0.36),
        (VOLUME, volume, 6, 0.18, 0.31),
        (BACKWARD, transposed_backward, 8, 0.18, 0.28),
    ],
)
def test_convolutions_take_as_long_as_on_an_h200(
    name: re.Pattern[str], make: Callable[..., Operation], count: int, most_mean: float, most: float
) -> None:
    """In groups, to few filters, over volumes, gradients of transposed ones."""
    errors = errors_of(name, make)
    assert len(errors) == count
    assert mean(map(abs, errors.values())) < most_mean, errors
    assert max(map(abs, errors.values())) < most, errors


def test_groups_of_few_channels_are_multiplied_together() -> None:
    """32 groups of 8 channels take as long as 4 of 64 whose other blocks are zeros, not as 32 products."""
    thirty_two, four = (time_of(H200, grouped("bf16", "256", "56", str(groups))) for groups in (32, 4))
    assert thirty_two < 1.5 * four


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("groups", ["1", "2", "8", "32", "64"])
def test_groups_take_no_less_than_their_bytes(dtype: str, groups: str) -> None:
    """What lies in HBM is read and written, however little is multiplied."""
    work = grouped(dtype, "256", "56", groups)
    least_s = sum(operand.bytes for operand in (*work.inputs, *work.outputs)) / H200.hbm_peak_bytes_per_s
    assert time_of(H200, work) > least_s


def test_filters_of_half_precision_are_padded_to_eight() -> None:
    """A kernel pads the weights, and one more cuts off what they made; TF32 needs neither."""
    names = [[kernel.name for kernel in kernels_of(H200, few(dtype, "nhwc", "64", "3", "256"))] for dtype in DTYPES]
    assert [made.count("pad") for made in names] == [2, 0]
