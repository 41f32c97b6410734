"""Prices of convolutions, held against 49 that an H100 took, and the memory that they hold."""

import json
import lzma
import re
from collections.abc import Iterator
from dataclasses import replace
from statistics import mean

import pytest
from support.torch_prices import channels_last, kernels_of, operation, script, tensor
from tilesight.simulator.device.device import load_device
from tilesight.simulator.operations.families.convolutions.convolution import held_bytes
from tilesight.simulator.operations.operation import Operation, RecordedStep
from tilesight.simulator.operations.price import price_step
from tilesight.simulator.operations.workspaces import peak_bytes

LAB = script()
H100 = load_device("h100")
MEASURED = "torch-operations-h100-2026-11-27-second"
NAME = re.compile(r"conv(1d)? ?(backward)? ?(nchw|nhwc)? (\d+)x(\d+)>(\d+)x(\d+)(?: k(\d+))? s(\d+)")
READ_OFF = (
    "64>64x56",
    "256>256x14",
    "320>320x64",
    "640>640x32",
    "128>128x256",
    "4>1152x32",
    "768>768x3000",
    "256>64x56",
)
"""Channels and pixels of shapes that most constants were read off; strides, gradients and few channels off others too.
"""


def convolved(name: str) -> Operation:
    """The operation of a line of the data; windows are centred where they overlap."""
    match = NAME.fullmatch(name)
    assert match, name
    is_line, is_backward, layout = match.group(1, 2, 3)
    batch, channels, filters, side, size, stride = (int(number or 3) for number in match.groups()[3:])
    made = (side - 1) // stride + 1 if size > stride or size == 1 else side // stride
    axes = 1 if is_line else 2
    shapes = (batch, channels, *[side] * axes), (filters, channels, *[size] * axes), (batch, filters, *[made] * axes)
    laid = channels_last if layout == "nhwc" else tensor
    source, weights, output = (laid(number, *shape) for number, shape in enumerate(shapes))
    if not is_backward:
        return operation("convolution", (source, weights), (output,))
    gradients = replace(source, storage=4), replace(weights, storage=5)
    return operation("convolution_backward", (output, source, weights), gradients)


def cases() -> Iterator[tuple[str, Operation, list[tuple[str, float]]]]:
    """Names, operations, and kernels with L2 empty before [us]."""
    with lzma.open(LAB.DATA / f"{MEASURED}.ndjson.xz", "rt") as lines:
        for row in map(json.loads, lines):
            if NAME.fullmatch(row["name"]):
                yield row["name"], convolved(row["name"]), row["cold"]


@pytest.mark.parametrize("is_read_off", [True, False])
def test_convolutions_take_as_long_as_on_an_h100(is_read_off: bool) -> None:
    """Both layouts, both directions, lines and planes, 3 to 1,280 channels; kernels are as many, memsets aside."""
    errors, counted = {}, []
    for name, work, kernels in cases():
        if is_read_off is any(shape in name for shape in READ_OFF):
            case = LAB.Case(name=name, operations=(work,), kernels={"cold": kernels}, fitted=is_read_off)
            priced = LAB.second_run(case, H100, "cold")
            errors[name] = sum(kernel.time_s for kernel in priced) / case.measured_s("cold") - 1.0
            counted.append(
                sum(kernel.name != "Memset" for kernel in priced)
                == sum(not kernel.startswith("Memset") for kernel, _ in kernels)
            )
    assert len(errors) > 20
    assert mean(map(abs, errors.values())) < 0.07, errors
    # The worst is a product of K = 64, whose tiles mostly write.
    assert max(map(abs, errors.values())) < 0.23, errors
    assert mean(counted) > 0.9


def test_operands_in_both_layouts_are_copied_by_torch() -> None:
    """Weights in NCHW beside an input in NHWC: as many kernels of cuDNN's as in NHWC, and one of torch's before."""
    source, output = (channels_last(number, 8, 64, 32, 32) for number in (1, 2))
    alike, mixed = (
        operation("convolution", (source, laid(3, 64, 64, 3, 3)), (output,)) for laid in (channels_last, tensor)
    )
    names = [kernel.name for kernel in kernels_of(H100, alike)]
    assert [kernel.name for kernel in kernels_of(H100, mixed)] == ["elementwise", *names]


def test_copies_in_the_other_layout_count_while_they_are_alive() -> None:
    """The second convolution of a mel spectrogram: torch's allocator held 108.84 MiB more on an H100; none in NHWC."""
    work = convolved("conv1d 16x768>768x3000 s2")
    tensors = (*work.inputs, *work.outputs)
    assert held_bytes(work) == sum(operand.bytes for operand in tensors) == pytest.approx(108.84 * 2**20, rel=1e-4)
    assert held_bytes(convolved("conv nhwc 8x128>128x256 k3 s1")) == 0
    later = operation("relu", work.outputs, work.outputs)
    step = RecordedStep(operations=(replace(work, live_bytes=100), later), mode="eager", peak_bytes=1 << 20)
    assert peak_bytes(step, price_step(step, H100, {}), H100) == 100 + held_bytes(work)


def test_a_transposed_convolution_is_its_counterparts_gradient() -> None:
    """The same products and turns, whichever of both asks: torch hands both to the same kernels."""
    narrow, wide, weights = tensor(1, 8, 256, 32, 32), tensor(2, 8, 128, 64, 64), tensor(3, 256, 128, 4, 4)
    forward = kernels_of(H100, operation("convolution", (narrow, weights), (wide,), transposed=True))
    wanted = (True, False, False)
    backward = kernels_of(H100, operation("convolution_backward", (narrow, wide, weights), (wide,), output_mask=wanted))
    assert [kernel.name for kernel in forward] == [kernel.name for kernel in backward]
    assert sum(x.time_s for x in forward) == pytest.approx(sum(x.time_s for x in backward), rel=0.2)
    flop = 2 * 8 * 32 * 32 * 256 * 128 * 16
    assert sum(kernel.time_s for kernel in forward) > flop / (
        H100.sms * H100.fastest_flop_per_cycle("bf16") * H100.boost_clock_hz
    )
