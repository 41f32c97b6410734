"""Convolutions of groups of many channels, and of 32 filters in half precision, held against what an H200 took."""

import json
import lzma
import re
from dataclasses import replace

import pytest
from support.torch_prices import channels_last, kernels_of, operation, script, tensor
from tilesight.simulator.device.device import load_device
from tilesight.simulator.operations.families.convolutions.convolution import held_bytes
from tilesight.simulator.operations.operation import Operation
from tilesight.simulator.operations.priced import KernelEstimate

H200 = load_device("h200")
FUNCTIONS = "torch-fifth-h200-2026-11-28"
RARE = "torch-rare-convolutions-h200-2026-11-28"
OF_CUDNN = re.compile(r"tensorTransform|xmma|nchwToNhwc|nhwcToNchw|dgrad")


def rows(data: str) -> dict[tuple[str, str], list[tuple[str, float]]]:
    """Kernels by names of cases and modes [us]."""
    with lzma.open(script().DATA / f"{data}.ndjson.xz", "rt") as lines:
        entries = [json.loads(line) for line in lines]
    return {
        (row.get("case") or row["name"], row.get("mode", "")): row.get("kernels") or row.get("cold") or []
        for row in entries
    }


def in_groups_of_112() -> Operation:
    """RegNetY-16GF's, 11 groups, channels last."""
    image = channels_last(0, 96, 1232, 14, 14)
    weights = channels_last(1, 1232, 112, 3, 3)
    return operation("convolution", (image, weights), (replace(image, storage=2),), groups=11)


def doubled_by_image() -> Operation:
    """StyleGAN2's, transposed, a group of each image."""
    image, weights, output = (
        tensor(number, *shape, dtype="float16")
        for number, shape in enumerate([(1, 2048, 64, 64), (2048, 128, 3, 3), (1, 1024, 129, 129)])
    )
    return operation("convolution", (image, weights), (output,), groups=8, transposed=True)


def sums_us(kernels: list[KernelEstimate]) -> float:
    """Time without memsets [us]."""
    return sum(kernel.time_s for kernel in kernels if kernel.name != "Memset") * 1e6


def test_groups_that_are_no_whole_steps_are_copied_apart_and_filled_up() -> None:
    """Three copies around the product take 425 us of 516; the product of what is filled up is 20 % off."""
    measured = [us for name, us in rows(FUNCTIONS)["regnet_block", "eager"] if re.search(r"tensorTransf|xmma", name)]
    kernels = [kernel for kernel in kernels_of(H200, in_groups_of_112()) if kernel.name != "Memset"]
    assert len(kernels) == len(measured) == 4
    for kernel, us in zip(kernels, measured, strict=True):
        assert kernel.time_s * 1e6 == pytest.approx(us, rel=0.22), kernel.name
    assert sums_us(kernels) == pytest.approx(sum(measured), rel=0.06)


def test_filled_up_copies_count_while_they_are_alive() -> None:
    """Both images of 11 x 128 channels, and the weights: all of what an H200 held more but 33 MiB."""
    work = in_groups_of_112()
    filled = 2 * 96 * 196 * 11 * 128 + 11 * 128 * 128 * 9
    assert held_bytes(work) == 2 * filled
    held = 293_016_576 - 149_197_312
    assert held - held_bytes(work) == pytest.approx(33 << 20, rel=1e-3)


def test_copies_of_all_groups_are_held_at_once() -> None:
    """cuDNN asks for the whole at the beginning: 56 MB, as much as its tensors; the peak of compiled code is met."""
    work = doubled_by_image()
    assert held_bytes(work) == sum(operand.bytes for operand in (*work.inputs, *work.outputs))


@pytest.mark.parametrize(
    ("groups", "is_filled"), [(2, False), (11, True), (22, True), (77, False)], ids=["640", "112", "56", "16"]
)
def test_only_wide_groups_that_are_no_whole_steps_are_filled_up(groups: int, is_filled: bool) -> None:
    """Groups of few channels are multiplied together instead, and 640 channels are whole steps of 64."""
    channels = 1280 if groups == 2 else 1232
    image = channels_last(0, 96, channels, 14, 14)
    weights = channels_last(1, channels, channels // groups, 3, 3)
    work = operation("convolution", (image, weights), (replace(image, storage=2),), groups=groups)
    names = [kernel.name for kernel in kernels_of(H200, work)]
    assert ("tensorTransformGeneric" in names) is is_filled


def test_transposed_convolutions_in_groups_run_group_by_group() -> None:
    """Each of eight images with three copies: 32 kernels, 291 us in compiled code, where some overlap."""
    measured = [us for name, us in rows(FUNCTIONS)["modulated_convolution", "compiled"] if OF_CUDNN.search(name)]
    kernels = kernels_of(H200, doubled_by_image())
    assert len(kernels) == len(measured) == 32
    assert sums_us(kernels) == pytest.approx(sum(measured), rel=0.08)


def test_wide_groups_in_half_precision_run_by_themselves() -> None:
    """Two groups of 64 channels: copies that run beside each other take twice as long, which is not predicted."""
    measured = rows(RARE)["conv groups bf16 16x128x28 g2", ""]
    image, weights = tensor(0, 16, 128, 28, 28), tensor(1, 128, 64, 3, 3)
    kernels = kernels_of(H200, operation("convolution", (image, weights), (replace(image, storage=2),), groups=2))
    assert len(kernels) == len(measured) == 8
    assert sums_us(kernels) == pytest.approx(sum(us for _, us in measured), rel=0.30)


def test_gradients_of_groups_run_apart_too() -> None:
    """A forward convolution's input gradient is the transposed one, group by group."""
    work = doubled_by_image()
    image, weights = work.inputs
    gradients = operation(
        "convolution_backward",
        (image, work.outputs[0], weights),
        (replace(work.outputs[0], storage=5),),
        groups=8,
        output_mask=(True, False, False),
    )
    assert sums_us(kernels_of(H200, gradients)) == pytest.approx(sums_us(kernels_of(H200, work)), rel=0.05)


def test_32_filters_in_half_precision_take_as_long_as_their_pixels_from_l2() -> None:
    """Real-ESRGAN's, 64 to 160 channels, by tiles of 128 pixels: 33 to 66 us."""
    measured = [us for name, us in rows(FUNCTIONS)["dense_residual", "compiled"] if "tilesize128x32x32" in name]
    channels = (64, 96, 128, 160)
    for wide, us in zip(channels, measured, strict=True):
        image, weights, output = (
            channels_last(number, *shape, dtype="float16")
            for number, shape in enumerate([(4, wide, 180, 256), (32, wide, 3, 3), (4, 32, 180, 256)])
        )
        work = operation("convolution", (image, weights), (output,))
        assert sums_us(kernels_of(H200, work)) == pytest.approx(us, rel=0.06)
