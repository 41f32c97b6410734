"""Which kernels operations launch, and what they took on an H100 (torch 2.11, 2026-11-27)."""

from dataclasses import replace

import pytest
from support.torch_prices import channels_last, kernels_of, operation, tensor
from tilesight.simulator.device.device import load_device
from tilesight.simulator.operations.families.scans import width_log2
from tilesight.simulator.operations.operation import Operand, Operation

H100 = load_device("h100")
FLUSHED = operation("zero_", (), (tensor(99, 1 << 28),))


def names(*operations: Operation) -> list[str]:
    """Of the kernels that operations launch."""
    return [kernel.name for kernel in kernels_of(H100, *operations)]


@pytest.mark.parametrize(
    ("rows", "row", "measured_us"),
    [
        (64, 32000, 54.2),
        (8, 50257, 81.0),
        (4096, 64, 4.1),
        (1024, 1024, 41.6),
        (16, 151936, 236.9),
        (4096, 4096, 178.6),
    ],
)
def test_running_sums_take_stretches_one_after_the_other(rows: int, row: int, measured_us: float) -> None:
    """Of fp32, caches flushed: 8 % off at most, where bytes would be up to 98 %."""
    work = operation(
        "cumsum", (tensor(1, rows, row, dtype="float32"),), (tensor(2, rows, row, dtype="float32"),), dim=1
    )
    assert 1e6 * kernels_of(H100, FLUSHED, work)[-1].time_s == pytest.approx(measured_us, rel=0.08)


def test_running_sums_along_outer_dimensions_go_down_alone() -> None:
    """8 x 2,048 x 2,048 of fp32 along the middle took 820 us, behind a copy where memory is in another order."""
    source, output = tensor(1, 8, 2048, 2048, dtype="float32"), tensor(2, 8, 2048, 2048, dtype="float32")
    turned = replace(source, strides=(2048 * 2048, 1, 2048))
    assert names(operation("cumsum", (turned,), (output,), dim=1)) == ["elementwise", "scan_outer"]
    (kernel,) = kernels_of(H100, operation("cumsum", (source,), (output,), dim=1))
    assert 1e6 * kernel.time_s == pytest.approx(820.0, rel=0.02)


@pytest.mark.parametrize(("rows", "row", "threads"), [(1, 64, 128), (4096, 64, 16), (64, 32000, 512), (65536, 64, 512)])
def test_rows_of_running_sums_have_threads_as_torch_divides_them(rows: int, row: int, threads: int) -> None:
    """Very many rows get the most: torch subtracts in numbers without a sign."""
    assert 1 << width_log2(rows, row) == threads


@pytest.mark.parametrize(
    ("pieces", "output", "axis", "launched"),
    [
        ((tensor(1, 64, 128), tensor(2, 64, 729)), tensor(3, 64, 857), 1, ["cat_aligned"]),
        ((tensor(1, 64, 128), tensor(2, 64, 256)), tensor(3, 64, 384), 1, ["cat_vectorized"]),
        ((replace(tensor(1, 64, 128), strides=(1, 64)), tensor(2, 64, 128)), tensor(3, 64, 256), 1, ["cat"]),
        ((tensor(1, 2, 2, 2, 8, 8), tensor(2, 2, 2, 2, 8, 8)), tensor(3, 2, 2, 2, 8, 16), 4, ["elementwise"] * 2),
    ],
)
def test_pieces_are_joined_by_what_their_slices_allow(
    pieces: tuple[Operand, ...], output: Operand, axis: int, launched: list[str]
) -> None:
    """Slices of 16 bytes, of less, in another order; five dimensions are copied piece by piece."""
    assert names(operation("cat", pieces, (output,), dim=axis)) == launched


def test_a_stack_behind_the_last_dimension_writes_half_of_each_sector_twice() -> None:
    """Of 2 x 32 x 4,096 x 64 fp32: two copies of 113 us each, 4.4 times what their bytes would take."""
    pieces = tuple(tensor(number, 2, 32, 4096, 64, dtype="float32") for number in (1, 2))
    output = tensor(3, 2, 32, 4096, 64, 2, dtype="float32")
    kernels = kernels_of(H100, operation("stack", pieces, (output,), dim=-1))
    assert [kernel.name for kernel in kernels] == ["elementwise", "elementwise"]
    assert [1e6 * kernel.time_s for kernel in kernels] == [pytest.approx(112.0, rel=0.08)] * 2
    assert all(kernel.hbm_read_bytes == pytest.approx(3 * pieces[0].bytes) for kernel in kernels)


def test_batch_norms_of_channels_last_have_kernels_of_their_own() -> None:
    """64 x 512 x 28 x 28: moments 90 us, product 47, sums of gradients 63, the input's 61."""
    source, output, gradient = (channels_last(number, 64, 512, 28, 28) for number in (1, 2, 3))
    factors = tuple(tensor(number, 512) for number in range(4, 8))
    moments = tuple(tensor(number, 512, dtype="float32") for number in (8, 9))
    learnt = operation("native_batch_norm", (source, *factors), (output, *moments), training=True)
    back = operation("native_batch_norm_backward", (gradient, source, *factors), (output, *moments))
    times = {kernel.name: 1e6 * kernel.time_s for kernel in kernels_of(H100, FLUSHED, learnt, FLUSHED, back)[1:]}
    assert times["batch_norm_collect_statistics"] == pytest.approx(90.3, rel=0.08)
    assert times["batch_norm_transform"] == pytest.approx(47.2, rel=0.17)
    assert times["batch_norm_reduce"] == pytest.approx(63.4, rel=0.15)
    assert times["batch_norm_backward"] == pytest.approx(61.4, rel=0.12)


def test_gradients_of_selections_are_copied_by_the_copy_engine_where_they_lie_together() -> None:
    """The first dimension's; of others a kernel copies."""
    whole = tensor(2, 3, 64, 32)
    first = operation("select_backward", (tensor(1, 64, 32),), (whole,), dim=0, index=1)
    last = operation("select_backward", (tensor(1, 3, 64),), (whole,), dim=2, index=1)
    assert names(first) == ["vectorized_elementwise", "Memcpy DtoD"]
    assert names(last) == ["vectorized_elementwise", "elementwise"]


def test_sums_of_truths_are_cast_first() -> None:
    """To the result's type; halves that are summed to floats are not."""
    truths, halves = tensor(1, 2048, dtype="bool"), tensor(2, 2048)
    number, real = tensor(3, dtype="int64"), tensor(4, dtype="float32")
    assert names(operation("sum", (truths,), (number,))) == ["unrolled_elementwise", "reduce"]
    assert names(operation("sum", (halves,), (real,))) == ["reduce"]


@pytest.mark.parametrize(
    ("batch", "m", "n", "k", "along_k", "measured_us"),
    [
        (1, 8192, 50257, 768, True, 6688.0),
        (1, 50257, 768, 8192, False, 4282.9),
        (1, 8192, 768, 50257, False, 4508.4),
        (1, 64, 50257, 768, True, 152.4),
        (1, 16, 50257, 768, True, 101.4),
        (512, 197, 197, 64, False, 90.3),
        (512, 197, 64, 197, False, 68.5),
        (16384, 27, 27, 128, True, 177.6),
        (12288, 49, 32, 49, False, 108.5),
    ],
)
def test_products_of_odd_rows_take_an_element_a_load(
    batch: int, m: int, n: int, k: int, along_k: bool, measured_us: float
) -> None:
    """What is loaded and stored one by one tells their time, 12 % off at most; K innermost in both is slower."""
    left, output = tensor(1, batch, m, k), tensor(3, batch, m, n)
    right = tensor(2, batch, k, n)
    if along_k:
        right = replace(right, strides=(k * n, 1, k))
    if m == 50257:
        left = replace(left, strides=(m * k, 1, m))
    kernel = next(
        kernel for kernel in kernels_of(H100, operation("bmm", (left, right), (output,))) if "gemm" in kernel.name
    )
    assert 1e6 * kernel.time_s == pytest.approx(measured_us, rel=0.12)


def test_gradients_of_gathers_sort_their_indices_by_the_bits_of_places() -> None:
    """32,768 additions to 4,096 rows: two passes, and 171.5 us; in place, as autograd has it."""
    indices, values = tensor(2, 32768, dtype="int64"), tensor(3, 32768, 2048)
    work = operation("index_put", (tensor(1, 4096, 2048), indices, values), (tensor(4, 4096, 2048),), accumulate=True)
    kernels = kernels_of(H100, replace(work, phase="backward"))
    assert [kernel.name for kernel in kernels].count("radix_sort") == 2
    assert len(kernels) == len(names(work)) - 1 == 13
    assert 1e6 * kernels[-1].time_s == pytest.approx(171.5, rel=0.14)


def test_gradients_of_group_norms_are_what_torch_launches() -> None:
    """Sums, two kinds of factors, the input's gradient, the weights'; copies before them in another order."""
    source, gradient = tensor(1, 4, 256, 128, 128), tensor(2, 4, 256, 128, 128)
    moments, weight = (tensor(3, 4, 32, dtype="float32"), tensor(4, 4, 32, dtype="float32")), tensor(5, 256)
    outputs = (tensor(6, 4, 256, 128, 128), tensor(7, 256), tensor(8, 256))
    work = operation("native_group_norm_backward", (gradient, source, *moments, weight), outputs)
    plain = ["group_norm_sums", "elementwise", "group_factors", "elementwise", "group_norm_grad_weights"]
    assert names(work) == plain
    turned = replace(work, inputs=(gradient, channels_last(1, 4, 256, 128, 128), *moments, weight))
    assert names(turned) == ["elementwise", *plain]


def test_indices_of_32_bits_are_cast_before_elements_are_taken() -> None:
    """`index` wants 64; a table that L1 holds costs L2 nothing."""
    table, codes = tensor(1, 16), tensor(2, 4096, 4096, dtype="int32")
    cast, taken = kernels_of(H100, operation("index", (table, codes), (tensor(3, 4096, 4096),)))
    assert (cast.name, taken.name, taken.bound_by) == ("unrolled_elementwise", "gather", "instructions")
    wide = replace(codes, dtype="int64", storage_bytes=2 * codes.storage_bytes)
    assert names(operation("index", (table, wide), (tensor(3, 4096, 4096),))) == ["gather"]


def test_cells_have_a_price_and_layers_that_a_gpu_runs_whole_have_none() -> None:
    """A GRU's cell by itself is a kernel of torch's."""
    gates, state = (tensor(1, 256, 3072), tensor(2, 256, 3072)), tensor(3, 256, 1024)
    cell = operation("_thnn_fused_gru_cell", (*gates, state), (tensor(4, 256, 1024), tensor(5, 256, 5120)))
    assert names(cell) == ["recurrent_cell"]
    (whole,) = kernels_of(H100, replace(cell, arguments={"layer": True}))
    assert (whole.source, "cuDNN" in whole.reason) == ("refused", True)


def test_products_copy_matrices_whose_rows_and_columns_lie_scattered() -> None:
    """Triangle updates: 300 x 300 pairs, the batch of 128 channels innermost, halves of 256; a copy took 96 us."""
    half = replace(tensor(1, 128, 300, 300), storage_bytes=2 * 300 * 300 * 256, strides=(1, 300 * 256, 256))
    output = tensor(2, 128, 300, 300)
    *copies, product = kernels_of(H100, FLUSHED, operation("bmm", (half, half), (output,)))[-3:]
    assert [kernel.name for kernel in copies] == ["elementwise"] * 2
    assert product.scratch_bytes == 2 * output.bytes
    assert 1e6 * copies[0].time_s == pytest.approx(96.0, rel=0.12)


def test_products_take_rows_or_columns_of_neighbours_as_they_lie() -> None:
    """Transposed, a slice of heads, a row of one step; not one row for all."""
    product = replace(tensor(1, 8, 64, 64), strides=(64, 512, 1)), replace(tensor(2, 8, 64, 64), strides=(64, 1, 512))
    assert all(name.startswith("gemm") for name in names(operation("bmm", product, (tensor(3, 8, 64, 64),))))
    row = replace(tensor(1, 64, 64), strides=(0, 1))
    assert names(operation("mm", (row, tensor(2, 64, 64)), (tensor(3, 64, 64),)))[0] == "elementwise"


def test_softmax_of_outer_dimensions_goes_around_with_as_many_threads_as_fit() -> None:
    """Four classes of volumes in float32 took 106.8 us on an H100, 16 bins of anchors in fp16 89.3."""
    volumes = tensor(1, 2, 4, 96, 160, 160, dtype="float32"), tensor(2, 2, 4, 96, 160, 160, dtype="float32")
    bins = tensor(1, 32, 16, 4, 8400, dtype="float16"), tensor(2, 32, 16, 4, 8400, dtype="float16")
    for (source, output), measured_us in ((volumes, 106.8), (bins, 89.3)):
        work = operation("_softmax", (source,), (output,), dim=1)
        assert 1e6 * kernels_of(H100, FLUSHED, work)[-1].time_s == pytest.approx(measured_us, rel=0.12)


def test_joining_along_slices_shorter_than_a_sector_reads_and_writes_it_for_each_piece() -> None:
    """Four points of four planes: 16 bytes of a row of 64 each; 546 us on an H100, of which bytes are 184."""
    pieces = tuple(tensor(number, 16, 32, 8500, 4, dtype="float32") for number in range(1, 5))
    output = tensor(9, 16, 32, 8500, 16, dtype="float32")
    (joined,) = kernels_of(H100, operation("cat", pieces, (output,), dim=-1))
    assert 440e-6 < joined.time_s < 560e-6
    wide = tensor(1, 4096, 8192), tensor(2, 4096, 8192)
    (apart,) = kernels_of(H100, operation("cat", wide, (tensor(9, 4096, 16384),), dim=-1))
    assert apart.hbm_read_bytes == pytest.approx(sum(piece.bytes for piece in wide))


def test_batch_norms_of_cudnn_are_one_kernel_each_way() -> None:
    """8 x 128 x 112 x 112 of float32 in training: 78 us on an H100, and 175 back."""
    images = [tensor(number, 8, 128, 112, 112, dtype="float32") for number in range(3)]
    channels = [tensor(number, 128, dtype="float32") for number in range(3, 7)]
    forward = operation("cudnn_batch_norm", (images[0], *channels), (images[1], *channels[:2]), training=True)
    backward = operation("cudnn_batch_norm_backward", (*images[:2], *channels), (images[2], *channels[:2]))
    for work, measured_us in ((forward, 78.0), (backward, 175.4)):
        (*_, before, kernel) = kernels_of(H100, FLUSHED, work)
        assert "cudnn" not in before.name
        assert 1e6 * kernel.time_s == pytest.approx(measured_us, rel=0.1)


def test_elements_put_at_random_fill_sectors_and_equal_indices_are_walked() -> None:
    """One of four classes of each voxel took 71.7 us on an H100; gradients of 320,000 edges in rows of eight 53.9."""
    classes, truth = tensor(1, 2, 4, 96, 160, 160, dtype="float32"), tensor(2, 2, 1, 96, 160, 160, dtype="int64")
    put = kernels_of(H100, FLUSHED, operation("scatter_", (classes, truth), (classes,), dim=1))[-1]
    assert 1e6 * put.time_s == pytest.approx(71.7, rel=0.15)
    nodes, edges = tensor(3, 20000, 8, dtype="float32"), tensor(4, 320000, dtype="int64")
    values = tensor(5, 320000, 8, dtype="float32")
    add = operation("index_put_", (nodes, edges, values), (nodes,), accumulate=True)
    added = kernels_of(H100, operation("mul", (values,), (values,)), add)[-1]
    assert 1e6 * added.time_s == pytest.approx(53.9, rel=0.25)
