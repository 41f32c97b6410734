"""Prices of kernels whose time hangs on how torch divides their work, held against an H100 (torch 2.11, 2026-11-27)."""

from dataclasses import replace

import pytest
from support.torch_prices import kernels_of, operation, tensor, time_of
from tilesight.simulator.device.device import load_device
from tilesight.simulator.operations.families.indexing import found_again

H100 = load_device("h100")


@pytest.mark.parametrize(
    ("held", "width", "dtype", "taken", "measured_us"),
    [(200_000, 256, "bfloat16", 262_144, 159.3), (100_000, 256, "float32", 1_000_000, 658.7)],
)
def test_gathers_take_as_long_as_their_ctas_and_what_l2_has_lost(
    held: int, width: int, dtype: str, taken: int, measured_us: float
) -> None:
    """Short rows: a CTA each, dispatched one after the other; 3 % off at most, and no number was read off gathers."""
    indices = tensor(2, taken, dtype="int64")
    (kernel,) = kernels_of(
        H100,
        operation("index", (tensor(1, held, width, dtype=dtype), indices), (tensor(3, taken, width, dtype=dtype),)),
    )
    assert 1e6 * kernel.time_s == pytest.approx(measured_us, rel=0.03)


@pytest.mark.parametrize("capacity", [0.1, 0.5, 1.0, 3.0])
def test_a_cache_keeps_what_is_read_again_beside_what_is_written(capacity: float) -> None:
    """What it holds is as large as it is, and of all that is read no more than it holds is found."""
    share = found_again(1.0, capacity)
    assert 0.0 < share < min(capacity, 1.0)
    assert found_again(2.0, 2.0 * capacity) == pytest.approx(share)
    assert found_again(1.0, 2.0 * capacity) > share


@pytest.mark.parametrize(
    ("rows", "columns", "measured_us"),
    [(32768, 1024, 152.1), (16384, 768, 78.0), (12608, 1024, 57.0), (8192, 768, 33.4)],
)
def test_gradients_of_norms_weights_keep_a_sm_busy_for_each_32_columns(
    rows: int, columns: int, measured_us: float
) -> None:
    """A CTA goes down all rows: 13 % off at most, where bytes alone would take a third."""
    inputs = (tensor(1, rows, columns), tensor(2, rows, columns), tensor(3, rows, dtype="float32"))
    work = operation(
        "native_layer_norm_backward",
        inputs,
        (tensor(4, columns), tensor(5, columns)),
        output_mask=(False, True, True),
        normalized_shape=(columns,),
    )
    (kernel,) = kernels_of(H100, work)
    assert 1e6 * kernel.time_s == pytest.approx(measured_us, rel=0.13)


def test_gradients_of_norms_weights_are_summed_apart_where_rows_are_many() -> None:
    """From 65,537 rows of few columns on: tiles, and a sum of them for each weight, with its memset."""
    inputs = (tensor(1, 1 << 17, 256), tensor(2, 1 << 17, 256), tensor(3, 1 << 17, dtype="float32"))
    work = operation(
        "native_layer_norm_backward", inputs, (tensor(4, 256), tensor(5, 256)), output_mask=(False, True, True)
    )
    assert [kernel.name for kernel in kernels_of(H100, work)] == ["layer_norm_grad_weights", *["Memset", "reduce"] * 2]


@pytest.mark.parametrize(
    ("rows", "classes", "measured_us"),
    [(32, 128256, 2.5), (2048, 50304, 18.3), (4096, 32000, 18.5), (8192, 50257, 18.8), (32768, 128, 29.7)],
)
def test_losses_take_the_turns_of_one_cta(rows: int, classes: int, measured_us: float) -> None:
    """`nll_loss`: 16 rows a thread, more where there are more than 16,384; 8 % off at most."""
    scores, targets = tensor(1, rows, classes, dtype="float32"), tensor(2, rows, dtype="int64")
    written = operation("zero_", (), (scores,))
    loss = operation("nll_loss_forward", (scores, targets), (tensor(3, dtype="float32"),), reduction=1)
    flushed = operation("zero_", (), (tensor(9, 1 << 28),))
    before = (written,) if rows == 32768 else (flushed,)
    assert 1e6 * kernels_of(H100, *before, loss)[-1].time_s == pytest.approx(measured_us, rel=0.08)


@pytest.mark.parametrize(
    ("name", "rows", "columns", "dtype", "measured_us"),
    [
        ("sum", 16384, 1024, "bfloat16", 36.4),
        ("sum", 8192, 8192, "bfloat16", 54.4),
        ("mean", 65536, 1024, "float32", 114.0),
        ("std", 65536, 1024, "float32", 232.1),
        ("std", 8192, 8192, "float32", 128.6),
    ],
)
def test_sums_over_rows_wait_for_what_their_ctas_have_left(
    name: str, rows: int, columns: int, dtype: str, measured_us: float
) -> None:
    """The last CTA of a column adds up hundreds of sums; 13 % off at most, where bytes alone would be up to 64 %."""
    work = operation(name, (tensor(1, rows, columns, dtype=dtype),), (tensor(2, columns, dtype=dtype),), dim=(0,))
    memset, kernel = kernels_of(H100, work)
    assert memset.name == "Memset"
    assert 1e6 * kernel.time_s == pytest.approx(measured_us, rel=0.13)


@pytest.mark.parametrize(
    ("name", "rows", "row", "measured_us"),
    [
        ("native_layer_norm", 50176, 192, 67.4),
        ("native_layer_norm", 51192, 512, 91.4),
        ("native_layer_norm", 16384, 768, 36.0),
        ("native_layer_norm", 8192, 16384, 296.6),
        ("_fused_rms_norm", 4096, 4096, 29.7),
        ("_fused_rms_norm", 8192, 16384, 286.8),
    ],
)
def test_norms_agree_once_a_row_and_load_long_rows_twice(name: str, rows: int, row: int, measured_us: float) -> None:
    """Many short rows issue, long ones have left L2: 10 % off at most."""
    moments = (tensor(3, rows, dtype="float32"), tensor(4, rows, dtype="float32"))
    inputs = (tensor(1, rows, row), tensor(5, row))
    work = operation(name, inputs, (tensor(2, rows, row), *moments), normalized_shape=(row,))
    flushed = operation("zero_", (), (tensor(9, 1 << 28),))
    assert 1e6 * kernels_of(H100, flushed, work)[-1].time_s == pytest.approx(measured_us, rel=0.10)


@pytest.mark.parametrize(("rows", "row", "measured_us"), [(602112, 49, 84.1), (4096, 1000, 9.1), (32768, 128, 8.4)])
def test_short_rows_of_softmax_fill_their_warp(rows: int, row: int, measured_us: float) -> None:
    """Rows are filled up to powers of two, and a warp agrees on each: 14 % off at most."""
    dtype = "float32" if row == 128 else "bfloat16"
    source, output = tensor(1, rows, row, dtype=dtype), tensor(2, rows, row, dtype=dtype)
    written = operation("mul", (source,), (source,))
    work = operation("_softmax", (source,), (output,), dim=-1)
    assert 1e6 * kernels_of(H100, written, work)[-1].time_s == pytest.approx(measured_us, rel=0.14)


@pytest.mark.parametrize(
    ("batch", "rows", "columns", "measured_us"), [(12288, 49, 32, 81.5), (64, 192, 784, 61.0), (64, 1152, 256, 146.8)]
)
def test_turned_copies_take_a_line_of_l1_for_each_lane(batch: int, rows: int, columns: int, measured_us: float) -> None:
    """L2 is asked once for sectors that a CTA comes back to: of short runs; 12 % off at most."""
    source = replace(tensor(1, batch, columns, rows), strides=(rows * columns, 1, columns))
    (kernel,) = kernels_of(H100, operation("clone", (source,), (tensor(2, batch, columns, rows),)))
    assert 1e6 * kernel.time_s == pytest.approx(measured_us, rel=0.12)


def test_sectors_that_l2_has_lost_come_from_hbm_for_each_element() -> None:
    """Sixteen neighbours a whole tensor apart (2 x 512 x 8,192 x 16 of bf16, turned): 1,513 us, 268 MB eight times."""
    source, output = tensor(1, 2, 16, 512, 8192), tensor(2, 2, 16, 512, 8192)
    turned = replace(source, strides=(512 * 8192 * 16, 1, 8192 * 16, 16))
    (kernel,) = kernels_of(H100, operation("clone", (turned,), (output,)))
    assert 1e6 * kernel.time_s == pytest.approx(1512.7, rel=0.06)


def test_rms_norms_of_a_gpu_with_more_bandwidth_wait_for_their_bytes() -> None:
    """Six sizes on a B200 by a public report, launch counted (pytorch issue 159682): the wide ones within 15 %."""
    reported_us = {
        (16384, 1024): 32.0,
        (16384, 4096): 48.0,
        (32768, 4096): 88.0,
        (65536, 1024): 97.0,
        (65536, 2048): 101.0,
        (65536, 4096): 167.0,
    }
    errors = {}
    for (rows, row), us in reported_us.items():
        given = (tensor(1, rows, row), tensor(2, row))
        work = operation("_fused_rms_norm", given, (tensor(3, rows, row),), normalized_shape=(row,))
        errors[rows, row] = 1e6 * time_of(load_device("b200"), work) / us - 1.0
    assert all(abs(error) < 0.15 for (_, row), error in errors.items() if row > 1024), errors
    assert sum(map(abs, errors.values())) / len(errors) < 0.25
