"""Layers of recurrent networks that cuDNN runs whole: kernels of a step, and how long on an H200 (2026-11-28)."""

import pytest
from support.torch_prices import kernels_of, operation, tensor, time_of
from tilesight.simulator.device.device import load_device
from tilesight.simulator.operations.operation import Operation

H200 = load_device("h200")
LSTM, GRU = 2, 3


def layers(mode: int, dtype: str, rows: int, steps: int, units: int, count: int = 1, **more: object) -> Operation:
    """`_cudnn_rnn` of as many inputs as units, rows first."""
    gates = units * {LSTM: 4, GRU: 3}[mode]
    weights = [
        tensor(10 + 4 * layer + place, *shape, dtype=dtype)
        for layer in range(count)
        for place, shape in enumerate(((gates, units), (gates, units), (gates,), (gates,)))
    ]
    states = [tensor(number, count, rows, units, dtype=dtype) for number in ((3, 4) if mode == LSTM else (3,))]
    given = (tensor(1, rows, steps, units, dtype=dtype), *weights, weights[0], *states)
    known = {"weight_stride0": 4, "mode": mode, "hidden_size": units, "num_layers": count, "batch_first": True}
    return operation("_cudnn_rnn", given, (tensor(2, rows, steps, units, dtype=dtype),), **known | more)


@pytest.mark.parametrize(
    ("mode", "dtype", "shape", "measured_us", "kernels"),
    [
        (LSTM, "bfloat16", (64, 50, 256, 2), 516.5, 224),
        (GRU, "bfloat16", (64, 50, 256, 2), 479.9, 224),
        (LSTM, "bfloat16", (8, 200, 1024), 1188.8, 408),
        (GRU, "bfloat16", (8, 200, 1024), 1101.5, 407),
        (LSTM, "bfloat16", (128, 32, 128), 148.4, 71),
        (GRU, "bfloat16", (128, 32, 128), 141.1, 71),
        (LSTM, "float32", (64, 50, 256, 2), 719.6, 215),
        (GRU, "float32", (64, 50, 256, 2), 677.6, 215),
        (LSTM, "float32", (8, 200, 1024), 2073.3, 402),
        (GRU, "float32", (8, 200, 1024), 1692.2, 402),
        (LSTM, "float32", (128, 32, 128), 112.0, 3),
    ],
)
def test_layers_take_as_long_as_on_an_h200(
    mode: int, dtype: str, shape: tuple[int, ...], measured_us: float, kernels: int
) -> None:
    """Shapes that nothing was read off, zeros of states apart: 16 % off at most, 5 in the mean."""
    priced = kernels_of(H200, layers(mode, dtype, *shape))
    assert 1e6 * sum(kernel.time_s for kernel in priced) == pytest.approx(measured_us, rel=0.16)
    assert len(priced) == pytest.approx(kernels, abs=2)


def test_a_step_is_a_product_and_a_cell() -> None:
    """Behind the product of all inputs; of bf16 copies of weights go before."""
    names = [kernel.name for kernel in kernels_of(H200, layers(GRU, "float32", 32, 3, 512))]
    assert names == ["elementwise", "gemm 96x1536x512", *["gemm 32x1536x512", "recurrent_cell"] * 3]
    copies = [kernel.name for kernel in kernels_of(H200, layers(GRU, "bfloat16", 32, 3, 512))]
    assert copies.count("Memcpy DtoD") == 4


def test_steps_follow_each_other() -> None:
    """Twice the steps take nearly twice as long, twice the rows do not."""
    once = time_of(H200, layers(LSTM, "bfloat16", 32, 128, 512))
    assert time_of(H200, layers(LSTM, "bfloat16", 32, 256, 512)) == pytest.approx(2 * once, rel=0.05)
    assert time_of(H200, layers(LSTM, "bfloat16", 64, 128, 512)) < 1.2 * once


@pytest.mark.parametrize(
    ("dtype", "more"),
    [("float16", {}), ("float64", {}), ("bfloat16", {"proj_size": 64}), ("bfloat16", {"batch_sizes": (3, 2)})],
)
def test_other_layers_have_no_price(dtype: str, more: dict[str, object]) -> None:
    """Types whose kernels nobody has seen, projections, packed sequences."""
    (refused,) = kernels_of(H200, layers(LSTM, dtype, 32, 16, 256, **more))
    assert refused.source == "refused"
