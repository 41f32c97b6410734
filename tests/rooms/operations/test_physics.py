"""No price beats its device: bytes at the peak of HBM, FLOP at the peak of the tensor cores."""

from dataclasses import replace
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.torch_prices import channels_last, kernels_of, operation, tensor, time_of
from tilesight.simulator.device.device import Device, catalogue, load_device
from tilesight.simulator.operations.families.elementwise import coalesced
from tilesight.simulator.operations.families.foreach import CHUNK, MOST_CHUNKS, launches
from tilesight.simulator.operations.operation import Operation

DEVICES = [load_device(name) for name in ("a100", "h100", "h200", "b200", "rtx-4090")]
SIDES = st.integers(1, 3000)
KINDS = ("add", "silu", "_softmax", "native_layer_norm", "cat", "_to_copy", "sum", "clone", "tril", "native_dropout")


def least_s(device: Device, *operations: Operation) -> float:
    """Of bytes that are in no L2 before, and of which L2 may keep as much as it holds unwritten [s]."""
    read = {x.storage: x.storage_bytes for work in operations for x in work.inputs}
    written = {x.storage: x.storage_bytes for work in operations for x in work.outputs}
    kept = max(sum(written.values()) - device.l2_bytes, 0.0)
    return (sum(read.values()) + kept) / device.hbm_peak_bytes_per_s


@given(st.sampled_from(DEVICES), st.sampled_from(KINDS), SIDES, SIDES, st.sampled_from(["bfloat16", "float32"]))
def test_operations_move_their_bytes(device: Device, name: str, rows: int, columns: int, dtype: str) -> None:
    """Each byte of inputs comes from HBM, and outputs beyond L2 go there, at its peak at best."""
    source, other, output = (tensor(number, rows, columns, dtype=dtype) for number in (1, 2, 3))
    work = operation(name, (source, other) if name == "add" else (source,), (output,), dim=-1)
    assert time_of(device, work) >= least_s(device, work)


@given(st.sampled_from(DEVICES), st.integers(1, 64), *[st.integers(1, 5000)] * 3)
def test_products_do_their_flop(device: Device, batch: int, m: int, n: int, k: int) -> None:
    """At the peak of the fastest tensor instruction at its highest clock, and their bytes."""
    left, right, output = tensor(1, batch, m, k), tensor(2, batch, k, n), tensor(3, batch, m, n)
    work = operation("bmm", (left, right), (output,))
    peak = device.fastest_flop_per_cycle("bf16") * device.sms * device.tensor_boost_clock_hz
    assert time_of(device, work) >= max(2.0 * batch * m * n * k / peak, least_s(device, work))


@pytest.mark.parametrize("device", DEVICES, ids=lambda device: device.name)
@pytest.mark.parametrize("columns", [4097, 4098])
def test_products_of_rows_out_of_place_do_their_flop(device: Device, columns: int) -> None:
    """Kernels that load an element or two at a time are bound by that, or by tensor cores where these are slower."""
    work = operation("mm", (tensor(1, 4096, columns), tensor(2, columns, columns)), (tensor(3, 4096, columns),))
    peak = device.fastest_flop_per_cycle("bf16") * device.sms * device.tensor_boost_clock_hz
    assert time_of(device, work) >= 2.0 * 4096 * columns * columns / peak


@given(
    st.sampled_from(DEVICES),
    st.booleans(),
    st.tuples(st.integers(1, 16), *[st.sampled_from([3, 4, 12, 64, 80, 320])] * 2, st.integers(4, 96)),
    st.sampled_from([(1, 1), (1, 2), (3, 1), (3, 2), (7, 2)]),
)
def test_convolutions_do_their_flop(
    device: Device, together: bool, shape: tuple[int, int, int, int], window: tuple[int, int]
) -> None:
    """Forward and each gradient, in either layout: products of what lies inside of the input, and their bytes."""
    (batch, channels, filters, side), (size, stride) = shape, window
    made = (side - 1) // stride + 1
    shapes = (batch, channels, side, side), (filters, channels, size, size), (batch, filters, made, made)
    laid = channels_last if together else tensor
    source, weights, output = (laid(number, *shape) for number, shape in enumerate(shapes))
    forward = operation("convolution", (source, weights), (output,))
    gradients = replace(source, storage=4), replace(weights, storage=5)
    backward = operation("convolution_backward", (output, source, weights), gradients)
    inside = sum(0 <= at * stride + tap - size // 2 < side for at in range(made) for tap in range(size))
    flop = 2.0 * batch * channels * filters * inside**2
    peak = device.fastest_flop_per_cycle("bf16") * device.sms * device.tensor_boost_clock_hz
    assert time_of(device, forward) >= max(flop / peak, least_s(device, forward) if size >= stride else 0.0)
    assert time_of(device, backward) >= 2 * flop / peak


@given(
    st.sampled_from(DEVICES),
    st.sampled_from(["cudnn", "flash", "efficient"]),
    st.booleans(),
    st.tuples(st.integers(1, 8), st.integers(1, 32), st.integers(2, 4096), st.sampled_from([32, 64, 96, 128, 256])),
)
def test_attention_does_its_flop(device: Device, backend: str, causal: bool, shape: tuple[int, ...]) -> None:
    """Forward and backward, half of the products under a causal mask."""
    q, k, v, out, gradient, *made = (tensor(number, *shape) for number in range(8))
    peak = device.fastest_flop_per_cycle("bf16") * device.sms * device.tensor_boost_clock_hz
    flop = 4.0 * prod(shape) * shape[2] / (2 if causal else 1)
    name = f"_scaled_dot_product_{backend}_attention"
    forward = operation(name, (q, k, v), (out,), is_causal=causal)
    backward = operation(f"{name}_backward", (gradient, q, k, v, out), tuple(made), is_causal=causal)
    assert time_of(device, forward) >= flop / peak
    assert time_of(device, backward) >= 2.5 * flop / peak


@given(
    st.sampled_from(DEVICES),
    st.sampled_from(["convolution", "sort", "topk", "histc", "bincount", "_transform_bias_rescale_qkv"]),
    st.tuples(st.integers(1, 64), st.integers(1, 5000)),
)
def test_counted_kernels_move_their_bytes(device: Device, name: str, shape: tuple[int, ...]) -> None:
    """Depthwise convolutions, orders and counts of rows: what has no price for a shape is refused, and as slow."""
    dtype = "int64" if name == "bincount" else "float32"
    source, weights = tensor(1, *shape, dtype=dtype), tensor(2, shape[0], 1, 3, dtype=dtype)
    output, indices, bins = tensor(3, *shape, dtype=dtype), tensor(4, *shape, dtype="int64"), tensor(5, 64, dtype=dtype)
    if name == "convolution":
        images = [tensor(number, 1, *shape, dtype=dtype) for number in (1, 3)]
        work = operation(name, (images[0], weights), (images[1],), groups=shape[0])
    elif name in ("sort", "topk"):
        work = operation(name, (source,), (output, indices), dim=-1)
    elif name.startswith("_"):
        work = operation(name, (source, weights), (output,))
    else:
        work = operation(name, (source,), (bins,), min=0, max=63)
    assert time_of(device, work) >= least_s(device, work)


@pytest.mark.parametrize("name", catalogue())
@pytest.mark.parametrize(
    ("product", "dtype", "kind"),
    [
        ("mm", "bfloat16", "bf16"),
        ("mm", "float16", "fp16"),
        ("_scaled_mm", "float8_e4m3fn", "fp8"),
        ("_int_mm", "int8", "i8"),
        ("_weight_int4pack_mm", "bfloat16", "bf16"),
    ],
)
@pytest.mark.parametrize("shape", [(4096, 4096, 4096), (1, 8192, 8192), (16384, 256, 512)])
def test_no_product_beats_a_device_at_its_type(
    name: str, product: str, dtype: str, kind: str, shape: tuple[int, int, int]
) -> None:
    """Each device of the catalogue, at the rate that it has for the type, where it has one, and at HBM's peak."""
    device, (m, n, k) = load_device(name), shape
    right = tensor(2, k, n, dtype=dtype)
    if product == "_weight_int4pack_mm":
        right = tensor(2, n // 8, k // 128, 32, 4, dtype="int32")
    work = operation(product, (tensor(1, m, k, dtype=dtype), right), (tensor(3, m, n),))
    rate = device.fastest_flop_per_cycle(kind) * device.sms * device.tensor_boost_clock_hz
    assert time_of(device, work) >= max(2.0 * m * n * k / rate if rate else 0.0, least_s(device, work))


@given(st.sampled_from(DEVICES), st.integers(1, 64), *[st.integers(1, 3000)] * 3)
def test_products_of_experts_do_their_flop(device: Device, experts: int, tokens: int, n: int, k: int) -> None:
    """At the peak of the fastest tensor instruction at its highest clock, and their bytes, in one kernel or in many."""
    left, right, output = tensor(1, tokens, k), tensor(2, experts, k, n), tensor(3, tokens, n)
    work = operation("_grouped_mm", (left, right, tensor(4, experts, dtype="int32")), (output,))
    peak = device.fastest_flop_per_cycle("bf16") * device.sms * device.tensor_boost_clock_hz
    assert time_of(device, work) >= max(2.0 * tokens * n * k / peak, least_s(device, work) * 0.999)


@given(st.lists(st.integers(1, 40 * CHUNK), min_size=1, max_size=200), st.integers(1, 5))
def test_launches_over_lists_take_every_element_once(sizes: list[int], depth: int) -> None:
    """Chunks would be lost where a launch is full, or be more than its CTAs."""
    tensors = [tensor(number, size) for number, size in enumerate(sizes)]
    taken = [0] * len(sizes)
    for pieces in launches(tensors, depth):
        assert sum(-(-piece.elements // CHUNK) for piece in pieces) <= MOST_CHUNKS
        for piece in pieces:
            assert piece.first == taken[piece.tensor]
            taken[piece.tensor] += piece.elements
    assert taken == sizes


@pytest.mark.parametrize(
    ("shape", "strides", "walked"),
    [
        ((8, 16, 32), (512, 32, 1), [4096]),
        ((8, 16, 32), (512, 1, 16), [32, 16, 8]),
        ((8, 16, 32), (0, 32, 1), [512, 8]),
        ((8, 1, 32), (32, 32, 1), [256]),
    ],
)
def test_dimensions_are_joined_as_tensor_iterator_joins_them(
    shape: tuple[int, ...], strides: tuple[int, ...], walked: list[int]
) -> None:
    """Contiguous, transposed, broadcast, of one element: beside a contiguous output, innermost first."""
    output = tensor(1, *shape)
    other = tensor(2, *shape)
    view = type(other)(storage=2, storage_bytes=other.bytes, shape=shape, strides=strides, dtype=other.dtype)
    assert coalesced((output, view))[0] == walked


def test_kernels_of_an_empty_operation_are_none() -> None:
    """Tensors without elements launch nothing."""
    empty = tensor(1, 0, 16)
    assert kernels_of(DEVICES[0], operation("add", (empty, empty), (tensor(2, 0, 16),))) == []
