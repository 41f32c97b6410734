"""Fourier transforms: which kernels, and how long on an H200 (cuFFT of CUDA 13.0, 2026-11-28)."""

from math import log2

import pytest
from support.torch_prices import behind_a_flush, kernels_of, operation, tensor, time_of
from tilesight.simulator.device.device import load_device
from tilesight.simulator.operations.families.fft import COMPLEX_BYTES
from tilesight.simulator.operations.operation import Operation

H200 = load_device("h200")


def transformed(name: str, count: int, *lines: int) -> Operation:
    """`_fft_r2c`, `_fft_c2r` or `_fft_c2c` along all dimensions but the first."""
    wide = tensor(1, count, *lines, dtype="complex64" if name == "_fft_c2c" else "float32")
    half = tensor(2, count, *lines[:-1], lines[-1] // 2 + 1, dtype="complex64")
    ends = {"_fft_c2c": (wide, tensor(2, count, *lines, dtype="complex64")), "_fft_r2c": (wide, half)}
    source, output = ends.get(name, (half, wide))
    axes = tuple(range(1, len(lines) + 1))
    return operation(name, (source,), (output,), dim=axes, normalization=2 if name == "_fft_c2r" else 0)


@pytest.mark.parametrize(
    ("name", "shape", "measured_us"),
    [
        ("_fft_c2c", (4096, 1024), 20.2),
        ("_fft_r2c", (4096, 1024), 12.3),
        ("_fft_c2r", (4096, 1024), 25.2),
        ("_fft_c2c", (16, 1 << 20), 184.5),
        ("_fft_r2c", (16, 1 << 20), 157.3),
        ("_fft_c2r", (16, 1 << 20), 203.1),
        ("_fft_r2c", (1024, 400), 5.3),
        ("_fft_c2c", (2048, 1023), 34.5),
        ("_fft_c2r", (2048, 1023), 35.2),
        ("_fft_c2c", (16, 256, 256), 13.3),
        ("_fft_c2c", (2, 1024, 1024), 22.8),
    ],
)
def test_transforms_take_as_long_as_on_an_h200(name: str, shape: tuple[int, ...], measured_us: float) -> None:
    """22 % off at most, 8 in the mean; only 1,023, for odd factors, was read off."""
    time_s = sum(kernel.time_s for kernel in behind_a_flush(H200, transformed(name, *shape)))
    assert 1e6 * time_s == pytest.approx(measured_us, rel=0.22)


@pytest.mark.parametrize(
    ("name", "shape", "names"),
    [
        ("_fft_c2c", (64, 16384), ["fft 64x16384"]),
        ("_fft_r2c", (64, 16384), ["fft 64x8192"]),
        ("_fft_r2c", (1024, 400), ["fft 1024x400"]),
        ("_fft_c2r", (64, 16384), ["Memcpy DtoD", "fft 64x8192", "vectorized_elementwise"]),
        ("_fft_c2c", (16, 1 << 20), ["fft_factor 16384x1024"] * 2),
        ("_fft_r2c", (2048, 1023), ["fft_pack", "fft 1024x1023", "fft_postprocess"]),
        ("_fft_c2c", (16, 256, 256), ["fft 4096x256"] * 2),
        ("_fft_r2c", (16, 256, 256), ["fft 4096x128", "fft 2064x256"]),
    ],
)
def test_transforms_launch_what_a_profiler_sees(name: str, shape: tuple[int, ...], names: list[str]) -> None:
    """Whole lines in a kernel, long ones in two; two real lines of odd length in a complex one; a scale by itself."""
    assert [kernel.name for kernel in kernels_of(H200, transformed(name, *shape))] == names


@pytest.mark.parametrize("points", [64, 1000, 4096, 1 << 18])
@pytest.mark.parametrize("device", ["h200", "a100-sxm-80gb", "rtx-4090", "b200"])
def test_no_transform_beats_bytes_or_arithmetic(points: int, device: str) -> None:
    """5 n log2 n operations of a line at the peak of multiplications and additions; what HBM must send."""
    target, work = load_device(device), transformed("_fft_c2c", (1 << 26) // points, points)
    time = time_of(target, work)
    peak = 2 * target.fma_per_cycle * target.sms * target.boost_clock_hz
    assert time > 5 * work.outputs[0].elements * log2(points) / peak
    assert time > work.inputs[0].elements * COMPLEX_BYTES["complex64"] / target.hbm_peak_bytes_per_s


def test_large_prime_factors_have_no_price() -> None:
    """Bluestein's algorithm takes them."""
    (refused,) = kernels_of(H200, transformed("_fft_c2c", 64, 8191))
    assert refused.source == "refused"


def test_lines_along_an_outer_dimension_are_copied_first() -> None:
    """Columns of matrices; along all dimensions nothing is."""
    source, output = (tensor(number, 64, 256, 32, dtype="complex64") for number in (1, 2))
    kernels = kernels_of(H200, operation("_fft_c2c", (source,), (output,), dim=(1,), normalization=0))
    assert [kernel.name for kernel in kernels] == ["Memcpy DtoD", "fft 2048x256"]
