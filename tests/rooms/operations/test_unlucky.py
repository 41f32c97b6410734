"""What is unlucky about a step: each kind is seen where it is planted, and nowhere else."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from support.steps import H200, kernel, matmul, profiled, tensor, torch_operation
from tilesight.simulator.operations.cost_model import KernelCostModel
from tilesight.simulator.operations.operation import Operation
from tilesight.simulator.operations.price import price

LONG_S = 4e-3
"""Against which the host's time is nothing [s]."""


def _seen(operations: Sequence[Operation], times_s: Sequence[float] = ()) -> dict[str, float]:
    """Names of what is unlucky, and what it costs. Args: times_s: of each operation's kernel."""
    priced = [[kernel(time_s)] for time_s in times_s or [LONG_S] * len(operations)]
    return {hint.cause: hint.time_s for hint in profiled(operations, priced).hints}


def test_nothing_is_said_of_an_even_step() -> None:
    """Large aligned products that fill all SMs, on rows in the order that the next reads."""
    assert _seen([matmul(128 * H200.sms, 256, 4096), torch_operation("gelu", [tensor(64)], [tensor(64)])]) == {}


def test_scores_that_go_to_memory_are_seen() -> None:
    """All from the first product to the second; not a softmax that no product follows."""
    batched = [torch_operation(name) for name in ("bmm", "div", "_softmax", "bmm")]
    assert _seen([matmul(64, 64, 64), *batched]) == {"attention": pytest.approx(4 * LONG_S)}
    assert _seen([torch_operation("bmm"), torch_operation("_softmax")]) == {}


def test_norms_of_many_kernels_are_seen() -> None:
    """With the kernels around the root, as far as they are parts of a norm."""
    names = ("gelu", "_to_copy", "pow", "mean", "add", "rsqrt", "mul", "_to_copy", "mul", "gelu")
    assert _seen([torch_operation(name) for name in names]) == {"norms": pytest.approx(8 * LONG_S)}
    assert _seen([torch_operation("native_layer_norm")]) == {}


@pytest.mark.parametrize(
    ("name", "operation"),
    [
        ("head dim", torch_operation("_scaled_dot_product_flash_attention", [tensor(1, 8, 512, 72)] * 3)),
        ("head dim", torch_operation("_scaled_dot_product_flash_attention", [tensor(1, 8, 512, 256)] * 3)),
        ("mask", torch_operation("_scaled_dot_product_cudnn_attention", [tensor(1, 8, 512, 256)] * 4)),
        ("grown", torch_operation("cat", [tensor(8, 1000, 64), tensor(8, 1, 64)], [tensor(8, 1001, 64)])),
        ("copies", torch_operation("clone", [tensor(64, 128, strides=(1, 64))], [tensor(64, 128)])),
        ("alignment", matmul(128 * H200.sms, 257, 4096)),
        ("precision", matmul(128 * H200.sms, 256, 4096, dtype="float32")),
    ],
)
def test_an_operation_off_the_fast_path_is_seen(name: str, operation: Operation) -> None:
    """With all of its time."""
    assert _seen([operation])[name] == pytest.approx(LONG_S)


def test_the_cure_of_full_precision_cures() -> None:
    """Products of float32 that may be rounded to TF32 take the tensor cores, and nothing is said of them."""
    product = matmul(4096, 4096, 4096, dtype="float32")
    rounded = replace(product, arguments={"tf32": True})
    slow_s, fast_s = (
        sum(made.time_s for made in price(made_of, KernelCostModel(H200))) for made_of in (product, rounded)
    )
    assert 5 * fast_s < slow_s
    assert "precision" in _seen([product]) and "precision" not in _seen([rounded])


@pytest.mark.parametrize("head_dim", [64, 96, 128])
def test_usual_head_dims_are_let_pass(head_dim: int) -> None:
    """The vendor's kernels are written for them."""
    operation = torch_operation("_scaled_dot_product_cudnn_attention", [tensor(1, 8, 512, head_dim)] * 3)
    assert _seen([operation]) == {}


def test_a_vocabulary_costs_what_its_last_tiles_leave_empty() -> None:
    """96 columns of 128: a quarter; what is below a hundredth of the step is not said."""
    assert _seen([matmul(128 * H200.sms, 96, 4096)])["uneven"] == pytest.approx(LONG_S / 4)
    assert "uneven" not in _seen([matmul(128 * H200.sms, 50304 + 8, 4096)])


def test_a_tail_costs_what_the_last_wave_leaves_idle() -> None:
    """Without it a product takes what its FLOP take at the tensor cores' clock, and a few per cent for its tiles."""
    product = matmul(2304, 2304, 16384)
    prices = price(product, KernelCostModel(H200))
    idle_s = next(hint.time_s for hint in profiled([product], [prices]).hints if hint.cause == "tails")
    least_s = 2 * 2304**2 * 16384 / (H200.sms * H200.wgmma_fp16_flop_per_cycle * H200.tensor_clock_hz)
    assert least_s <= sum(made.time_s for made in prices) - idle_s <= 1.05 * least_s


def test_launches_cost_what_a_graph_saves() -> None:
    """Of kernels that are shorter than the host."""
    operations = [torch_operation("add") for _ in range(50)]
    profile = profiled(operations, [[kernel(1e-6)]] * 50)
    (hint,) = profile.hints
    assert (hint.cause, hint.time_s) == ("launches", profile.stream.end_s - profile.graph.end_s)
    assert hint.share == pytest.approx(hint.time_s / profile.step_s)


def test_what_is_unlucky_stands_in_a_line_with_its_cure() -> None:
    """With where it is, what it costs, and its share."""
    copy = torch_operation("clone", [tensor(64, 128, strides=(1, 64))], [tensor(64, 128)], where="model.py:7")
    text = " ".join(str(profiled([copy], [[kernel(LONG_S)]])).split())
    cure = "keep tensors in the layout that the next operation reads, or let torch.compile fuse them"
    assert f"Unlucky copies into another layout (model.py:7): 4.00 ms, 100 % of the step; cure: {cure}" in text


def test_a_mask_is_named_and_not_the_head_dim_beside_it() -> None:
    """Head dims cannot be changed, and the mask decides which kernel runs."""
    masked = torch_operation("_scaled_dot_product_efficient_attention", [tensor(1, 8, 512, 256)] * 4)
    assert set(_seen([masked])) == {"mask"}


def test_products_of_8_bits_are_not_called_float32_for_their_scales() -> None:
    """`_scaled_mm` of rows has float32 scales of (M, 1) and (1, N) behind its matrices."""
    matrices = [tensor(4096, 4096, dtype="float8_e4m3fn")] * 2
    scales = [tensor(4096, 1, dtype="float32"), tensor(1, 4096, dtype="float32")]
    scaled = torch_operation("_scaled_mm", [*matrices, *scales], [tensor(4096, 4096)])
    assert "precision" not in _seen([scaled]) and "alignment" not in _seen([scaled])


def _real(operation: Operation) -> dict[str, tuple[float, str]]:
    """What is said of an operation at its own price: name -> what it costs [s], and how it is cured."""
    made = profiled([operation], [price(operation, KernelCostModel(H200))])
    return {hint.cause: (hint.time_s, hint.cure) for hint in made.hints}


def test_a_sum_along_an_outer_dimension_costs_all_but_its_bytes() -> None:
    """2,048 steps of 8,192 threads: 134 MB in all take 28 us at 4.8 TB/s, and the walk 26 times that."""
    source = tensor(4, 2048, 2048, dtype="float32")
    scan = replace(torch_operation("cumsum", [source], [replace(source, storage=99)]), arguments={"dim": 1})
    (kernel_of,) = price(scan, KernelCostModel(H200))
    cost_s, cure = _real(scan)["cumsum"]
    assert cost_s == pytest.approx(kernel_of.time_s - 2 * source.bytes / H200.hbm_peak_bytes_per_s)
    assert "innermost" in cure
    assert _real(replace(scan, arguments={"dim": 2})) == {}


def test_a_convolution_of_patches_costs_all_but_its_flop() -> None:
    """16 x 16 of 3 channels: 14.8 GFLOP and 39 MB take 15 us; its copies of layouts are no hint of their own."""
    images, weights, made = tensor(64, 3, 224, 224), tensor(768, 3, 16, 16), tensor(64, 768, 14, 14)
    patches = replace(
        torch_operation("convolution", [images, replace(weights, storage=98)], [replace(made, storage=99)]),
        arguments={"stride": (16, 16), "padding": (0, 0), "dilation": (1, 1), "groups": 1},
    )
    whole_s = sum(kernel.time_s for kernel in price(patches, KernelCostModel(H200)))
    hints = _real(patches)
    assert whole_s - hints["convolution"][0] == pytest.approx(15e-6, rel=0.05)
    assert "Linear" in hints["convolution"][1] and "layout" not in hints


def test_copies_between_layouts_are_named_with_their_time() -> None:
    """Around convolutions of several pixels whose channels lie apart; none where these lie together."""
    images, weights = tensor(8, 128, 128, 128), replace(tensor(256, 128, 3, 3), storage=98)
    made = replace(tensor(8, 256, 128, 128), storage=99)
    settings = {"stride": (1, 1), "padding": (1, 1), "dilation": (1, 1), "groups": 1}
    apart = replace(torch_operation("convolution", [images, weights], [made]), arguments=settings)
    copied_s = sum(kernel.time_s for kernel in price(apart, KernelCostModel(H200)) if "nhwc" in kernel.name)
    assert _real(apart)["layout"][0] == pytest.approx(copied_s)
