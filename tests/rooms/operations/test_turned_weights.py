"""Gradients of weights in TF32, held against what an H100 and an H200 took."""

import json
import lzma
from dataclasses import replace

import pytest
from support.torch_prices import kernels_of, operation, script, tensor
from tilesight.simulator.device.device import load_device
from tilesight.simulator.operations.priced import KernelEstimate


def measured_us(data: str, case: str) -> list[float]:
    """Kernels of gradients of weights in TF32, those that add up parts aside [us]."""
    with lzma.open(script().DATA / f"{data}.ndjson.xz", "rt") as lines:
        kernels = [row["kernels"] for row in map(json.loads, lines) if (row["case"], row["mode"]) == (case, "eager")]
    return [us for name, us in kernels[0] if "wgrad_indexed_implicit_gemm" in name and "split_k" not in name]


def weights_gradient(device: str, batch: int, channels: int, filters: int, side: int) -> list[KernelEstimate]:
    """Kernels of the gradient of weights of 3 x 3, without copies and memsets."""
    shapes = [(batch, filters, side, side), (batch, channels, side, side), (filters, channels, 3, 3)]
    gradient, image, weights = (tensor(number, *shape, dtype="float32") for number, shape in enumerate(shapes))
    wanted = (False, True, False)
    work = operation(
        "convolution_backward", (gradient, image, weights), (replace(weights, storage=4),), output_mask=wanted
    )
    return [kernel for kernel in kernels_of(load_device(device), work) if "nchw" not in kernel.name]


def test_few_pixels_of_many_channels_take_as_long_as_on_an_h200() -> None:
    """320 channels of 8 x 8: 69 CTAs, no parts; a third as long is what multiplying takes."""
    (kernel,) = weights_gradient("h200", 64, 320, 320, 8)
    for us in measured_us("torch-fifth-h200-2026-11-28", "train_sharpness_aware"):
        assert kernel.time_s * 1e6 == pytest.approx(us, rel=0.05)


@pytest.mark.parametrize(("channels", "names"), [(128, 3), (256, 2)])
def test_pixels_in_parts_take_as_long_as_on_an_h100(channels: int, names: int) -> None:
    """Images of 112 x 112: 14 parts of each tile, which a kernel adds up, or 7, which CTAs do."""
    kernels = weights_gradient("h100", 8, channels, 128, 112)
    assert len(kernels) == names
    product = next(kernel for kernel in kernels if kernel.name.startswith("convolution"))
    longest = sorted(measured_us("torch-fourth-h100-2026-11-28", "train_unet_decoder"))[-2:]
    assert product.time_s * 1e6 == pytest.approx(longest[channels == 256], rel=0.07)
