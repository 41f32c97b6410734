"""Depthwise convolutions and batch norms of cuDNN's, channels last in float32, held against what an H200 took."""

from dataclasses import replace

import pytest
from support.torch_prices import channels_last, kernels_of, operation, tensor
from tilesight.simulator.device.device import load_device

H200 = load_device("h200")
FLUSHED = operation("fill", (tensor(50, 1 << 28),), (tensor(50, 1 << 28),))


@pytest.mark.parametrize(
    ("channels", "forward_us", "backward_us", "rel"), [(240, 87.4, 110.1, 0.03), (40, 15.9, 18.1, 0.14)]
)
def test_batch_norms_in_training_are_one_kernel_of_cudnns(
    channels: int, forward_us: float, backward_us: float, rel: float
) -> None:
    """MobileNetV3's, 96 x 28 x 28 (torch 2.11, cuDNN 9.19): a memset before each."""
    source, output, gradient = (channels_last(number, 96, channels, 28, 28, dtype="float32") for number in (1, 2, 3))
    factors = tuple(tensor(number, channels, dtype="float32") for number in range(4, 8))
    moments = tuple(tensor(number, channels, dtype="float32") for number in (8, 9))
    forward = operation("cudnn_batch_norm", (source, *factors), (output, *moments), training=True)
    backward = operation("cudnn_batch_norm_backward", (source, gradient, *factors[:3], *moments), (output, *moments))
    for work, measured_us in ((forward, forward_us), (backward, backward_us)):
        memset, kernel = kernels_of(H200, FLUSHED, work)[1:]
        assert (memset.name, kernel.source) == ("Memset", "bytes")
        assert kernel.time_s * 1e6 == pytest.approx(measured_us, rel=rel)


def test_depthwise_convolutions_and_their_gradients_take_as_long_as_on_an_h200() -> None:
    """MobileNetV3's 5 x 5 of 240 channels: 130 us, the input's 132, the weights' 148 and 1.3; bytes would take 33."""
    image, weights = channels_last(0, 96, 240, 28, 28, dtype="float32"), tensor(1, 240, 1, 5, 5, dtype="float32")
    output = replace(image, storage=2)
    (kernel,) = kernels_of(H200, operation("convolution", (image, weights), (output,), groups=240))
    assert kernel.time_s * 1e6 == pytest.approx(130.3, rel=0.04)
    gradients = (replace(image, storage=5), replace(weights, storage=6))
    kernels = kernels_of(H200, operation("convolution_backward", (output, image, weights), gradients, groups=240))
    measured_us = [132.3, 1.1, 147.6, 1.3]
    assert [kernel.time_s * 1e6 for kernel in kernels] == [pytest.approx(us, rel=0.04, abs=0.5) for us in measured_us]


@pytest.mark.parametrize(
    ("window", "measured_us"), [((11, 1), [163.3, 164.9, 163.7]), ((1, 11), [121.9])], ids=["down", "across"]
)
def test_few_channels_have_kernels_that_take_five_times_their_bytes(
    window: tuple[int, int], measured_us: list[float]
) -> None:
    """Blurs of three colours: a kernel of each of them by columns, one of all by rows."""
    height = 512 if window[0] > 1 else 502
    made = (height - window[0] + 1, 512 - window[1] + 1)
    image, output = channels_last(0, 8, 3, height, 512, dtype="float32"), channels_last(2, 8, 3, *made, dtype="float32")
    work = operation("convolution", (image, tensor(1, 3, 1, *window, dtype="float32")), (output,), groups=3)
    assert [kernel.time_s * 1e6 for kernel in kernels_of(H200, work)] == [
        pytest.approx(us, rel=0.03) for us in measured_us
    ]


@pytest.mark.parametrize(("dtype", "side"), [("bfloat16", 28), ("float16", 28), ("float32", 14)])
def test_gradients_that_nobody_measured_are_refused(dtype: str, side: int) -> None:
    """Of half precision, and of windows that stride."""
    image, gradient = channels_last(0, 96, 240, 28, 28, dtype=dtype), channels_last(2, 96, 240, side, side, dtype=dtype)
    weights = tensor(1, 240, 1, 5, 5, dtype=dtype)
    made = (replace(image, storage=5), replace(weights, storage=6))
    work = operation("convolution_backward", (gradient, image, weights), made, groups=240)
    assert [kernel.source for kernel in kernels_of(H200, work)] == ["refused"]
