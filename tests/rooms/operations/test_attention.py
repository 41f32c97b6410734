"""Attention of the vendor's back ends, forward and backward, on lengths and masks that other programs timed."""

import json
import lzma
from collections.abc import Iterator
from dataclasses import replace
from statistics import mean

import pytest
from support.lab import DATA, measured
from support.torch_prices import kernels_of, operation, tensor, time_of
from tilesight.simulator.device.device import Device, load_device
from tilesight.simulator.operations.families.attention.attention import problem_of
from tilesight.simulator.operations.operation import Operand, Operation

H100, H200 = load_device("h100"), load_device("h200")
TOKENS = 16384
"""Batch times length of the gradients that were timed, of 32 heads of 64 or 16 of 128."""


def forward_and_backward(backend: str, shape: tuple[int, ...], causal: bool) -> tuple[Operation, Operation]:
    q, k, v, out, gradient, *made = (tensor(number, *shape) for number in range(8))
    name = f"_scaled_dot_product_{backend}_attention"
    return (
        operation(name, (q, k, v), (out,), is_causal=causal),
        operation(f"{name}_backward", (gradient, q, k, v, out), tuple(made), is_causal=causal),
    )


def timed() -> Iterator[tuple[Device, Operation, float]]:
    """GPU, operation, time [s]: docs/kernel-speed.md."""
    for row in measured("kernel-speed-h200-2026-11-21")["attention"]:
        batch, heads, length, dim, causal = row["problem"]
        flop = 4.0 * batch * heads * length**2 * dim / (2 if causal else 1)
        for backend in ("flash", "cudnn"):
            forward, _ = forward_and_backward(backend, (batch, heads, length, dim), causal)
            yield H200, forward, flop / row["flop_per_s"][f"sdpa-{backend}"]
    with lzma.open(DATA / "attention-speed-h100-2026-11-27.ndjson.xz", "rt") as lines:
        for row in map(json.loads, lines):
            if row["kind"] == "peer":
                backend, length, dim = row["name"].split("_")[0].lower(), row["N"], row["D"]
                shape = (TOKENS // length, 2048 // dim, length, dim)
                forward, backward = forward_and_backward(backend, shape, row["causal"])
                yield H100, forward, 1e-3 * row["fwd_ms"]
                yield H100, backward, 1e-3 * row["bwd_ms"]


@pytest.mark.parametrize("part", ["forward", "backward"])
@pytest.mark.parametrize("backend", ["flash", "cudnn"])
def test_attention_takes_as_long_as_was_timed(backend: str, part: str) -> None:
    """N = 1024 to 16384, with and without a causal mask, D = 64 and 128; forward on both GPUs."""
    errors = [
        abs(time_of(device, work) / seconds - 1.0)
        for device, work, seconds in timed()
        if backend in work.name and work.name.endswith("_backward") == (part == "backward")
    ]
    assert len(errors) >= 16
    assert mean(errors) < 0.08
    assert max(errors) < 0.20, errors


@pytest.mark.parametrize("backend", ["cudnn", "flash", "efficient"])
def test_a_result_as_wide_as_there_are_keys_is_no_mask(backend: str) -> None:
    """64 keys of 64 elements: O looks like a mask; a true one costs more, forward and backward."""
    forward, backward = forward_and_backward(backend, (4, 8, 64, 64), causal=False)
    mask = tensor(9, 1, 1, 64, 64)
    for plain in (forward, backward):
        masked = replace(plain, inputs=(*plain.inputs, mask))
        assert problem_of(plain).extra == (False, False)
        assert problem_of(masked).extra == (True, False)
        assert time_of(H100, masked) > time_of(H100, plain)


def single(number: int) -> Operand:
    """Queries of 128 sequences of 200, two heads of 64, float32."""
    return tensor(number, 128, 2, 200, 64, dtype="float32")


@pytest.mark.parametrize(("part", "measured_us"), [(0, 111.0), (1, 226.2)])
def test_float32_is_multiplied_as_three_products_of_tf32(part: int, measured_us: float) -> None:
    """A causal layer of 200 items, of which the constants were read (torch 2.11, 2026-11-28); main kernels alone."""
    plain = forward_and_backward("efficient", (128, 2, 200, 64), causal=True)[part]
    inputs, outputs = (tuple(single(o.storage) for o in given) for given in (plain.inputs, plain.outputs))
    *_, kernel = kernels_of(H200, replace(plain, inputs=inputs, outputs=outputs))
    assert 1e6 * kernel.time_s == pytest.approx(measured_us, rel=0.05)
    assert kernel.source == "attention"


def test_float32_pays_for_whole_tiles() -> None:
    """193 to 256 queries and keys cost alike, but for their bytes; half of the tiles lie above a causal diagonal."""
    times = {}
    for length in (193, 256):
        for causal in (False, True):
            q, k, v, out = (tensor(number, 128, 2, length, 64, dtype="float32") for number in range(4))
            work = operation("_scaled_dot_product_efficient_attention", (q, k, v), (out,), is_causal=causal)
            times[length, causal] = time_of(H200, work)
    assert times[193, True] == pytest.approx(times[256, True], rel=0.05)
    assert times[256, True] / times[256, False] == pytest.approx(10 / 16, rel=0.05)
