"""Batch norms with known moments: which kernels torch has for them, held against an H200 (torch 2.11, 2026-11-28)."""

from dataclasses import replace

import pytest
from support.torch_prices import behind_a_flush, kernels_of, operation, tensor
from tilesight.simulator.device.device import load_device
from tilesight.simulator.operations.operation import Operation

H200 = load_device("h200")


def norm(*shape: int, dtype: str = "float32", factors: str = "float32") -> Operation:
    """`native_batch_norm` as the recorder has it, not in training."""
    given = tuple(tensor(number, shape[1], dtype=factors) for number in range(3, 7))
    made = (tensor(2, *shape, dtype=dtype),)
    return operation("native_batch_norm", (tensor(1, *shape, dtype=dtype), *given), made, training=False)


@pytest.mark.parametrize(
    ("shape", "measured_us", "tolerance"), [((36000, 64, 20), 1387.1, 0.05), ((4, 64, 248, 216), 57.7, 0.1)]
)
def test_float32_takes_the_librarys_kernel(shape: tuple[int, ...], measured_us: float, tolerance: float) -> None:
    """Pillars of 20 points keep a CTA of 256 threads for each feature; the constants were read off these two."""
    (kernel,) = behind_a_flush(H200, norm(*shape))
    assert kernel.name == "cudnn_batch_norm_inference"
    assert 1e6 * kernel.time_s == pytest.approx(measured_us, rel=tolerance)


def test_others_take_torchs_own() -> None:
    """Of bf16, of matrices, of more images than 65,535 and of channels that lie together."""
    last = norm(8, 64, 28, 28)
    (source, *rest), strides = last.inputs, (64 * 784, 1, 28 * 64, 64)
    last = replace(last, inputs=(replace(source, strides=strides), *rest))
    for work in (norm(8, 64, 28, 28, dtype="bfloat16"), norm(512, 64), norm(65536, 64, 4), last):
        assert kernels_of(H200, work)[-1].name == "batch_norm_transform"
    assert kernels_of(H200, norm(65535, 64, 4))[-1].name == "cudnn_batch_norm_inference"


def test_scattered_inputs_are_copied_first() -> None:
    """Points of pillars whose features lie together."""
    work = norm(36000, 64, 20)
    source, *rest = work.inputs
    made = kernels_of(H200, replace(work, inputs=(replace(source, strides=(1280, 1, 64)), *rest)))
    assert [kernel.name for kernel in made] == ["elementwise", "cudnn_batch_norm_inference"]
