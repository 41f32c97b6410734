"""Operations of a step in, the kernels that they launch and what each takes out.

Each family of operations has a price of its own in `families`; whatever belongs to none is refused: it is given the
least time that its bytes take, and a reason, and stands outside every total.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from ..device.device import Device
from ..jobs.attempts import internal
from ..launch.before import Before, recent
from ..prediction.timing import ZEROED_BYTES
from .families.attention import attention, attention_backward
from .families.composed import logsumexp, loss_of_elements, loss_of_logits, recurrent_cell, sum_of_products
from .families.convolutions.dense import convolution, convolution_backward
from .families.convolutions.depthwise import is_depthwise, other_kernel
from .families.elementwise import drawn, elementwise
from .families.foreach import OPTIMIZERS, foreach
from .families.images.adaptive import adaptively_pooled, adaptively_pooled_backward
from .families.images.columns import folded, unfolded
from .families.images.nearest import copied_nearest, nearest_backward
from .families.images.padding import padded, padded_backward
from .families.images.pooling import pooled, pooled_backward
from .families.images.resampling import FILTERS, antialiased, interpolated, interpolated_backward
from .families.images.sampling import sampled, sampled_backward
from .families.images.shuffles import shuffled, turned
from .families.images.slopes import sloped, sloped_backward
from .families.joining import cat
from .families.losses.entropy import binary_cross_entropy, binary_cross_entropy_backward
from .families.losses.planes import nll_loss2d, nll_loss2d_backward
from .families.movement import (
    embedding_backward,
    gather,
    inserted,
    placed,
    scatter,
    split_heads,
    spread,
    triangle,
)
from .families.names import DRAWN, MATH, MATH_BACKWARD, REDUCED, SERIES_OF, SIMPLE
from .families.norms import (
    batch_norm,
    batch_norm_backward,
    cudnn_batch_norm_backward,
    group_norm,
    group_norm_backward,
    layer_norm,
    layer_norm_backward,
)
from .families.ordering import histogram, other_histogram, topk
from .families.products.grouped import grouped
from .families.products.integers import integer_product
from .families.products.matmul import MULTIPLIED, matmul
from .families.products.triangles import triangles_solved
from .families.recurrent.layers import other_layers, recurrent_layers
from .families.reductions import reduction
from .families.rows import nll_loss, nll_loss_backward, softmax, softmax_backward
from .families.scans import running_choice, running_sum
from .families.scattering.combined import index_reduce, scatter_reduce
from .families.scattering.masked import index_fill, masked_scatter
from .families.scattering.segments import embedding_bag, embedding_bag_backward, segment_reduce
from .families.selection.ranks import ranked
from .families.selection.sampling import multinomial, other_draws
from .families.selection.searching import searched
from .families.sorting import other_sort, sort
from .families.transforms.fourier import transform
from .families.vectors.distances import distances, euclidean
from .families.vectors.norms import cross, diagonals, renorm, weight_norm
from .families.vectors.numbers import angle, joined, leaky_noise, polar
from .gpu import Gpu
from .operation import Operand, Operation, RecordedStep
from .priced import NoPrice, PricedKernel
from .stated import WAITS, StatedPrice, is_collective, stated_kernel

Price = Callable[[Operation, Gpu], list[PricedKernel]]
L2 = Literal["empty", "warm", "cold"]
ZEROS = Operand(storage=1 << 40, storage_bytes=ZEROED_BYTES, shape=(ZEROED_BYTES,), strides=(1,), dtype="uint8")
"""What `do_bench` writes before each call."""


def _dropout(operation: Operation, gpu: Gpu) -> list[PricedKernel]:
    return [drawn("dropout", operation.inputs, operation.outputs, gpu)]


def _arange(operation: Operation, gpu: Gpu) -> list[PricedKernel]:
    return [gpu.kernel("arange", (), operation.outputs)]


def _packed_product(operation: Operation, gpu: Gpu) -> list[PricedKernel]:
    """`_weight_int4pack_mm`: weights of 4 bits are unpacked on the way to tensor cores, which take bf16."""
    flop = 2.0 * operation.inputs[0].elements * operation.outputs[0].shape[-1]
    busy_s = flop / (gpu.device.fastest_flop_per_cycle("bf16") * gpu.sms * gpu.device.tensor_boost_clock_hz)
    note = "packed weights were not measured: their bytes, or FLOP at the peak"
    return [gpu.kernel("tinygemm", operation.inputs, operation.outputs, source="matmul", tensor_s=busy_s, note=note)]


MULTIPLYING = ("mm", "bmm", "addmm", "addmm_activation", "baddbmm", "linear", "mv", "addmv", "scaled_mm")
PADS = [f"{kind}_pad{dims}d" for kind in ("reflection", "replication") for dims in (1, 2, 3)]
NEAREST = [f"upsample_nearest{kind}{dims}d" for kind in ("", "_exact") for dims in (1, 2, 3)]
IMAGES: Mapping[str, Price] = {
    **dict.fromkeys((f"upsample_{kind}" for kind in FILTERS), interpolated),
    **dict.fromkeys((f"upsample_{kind}_backward" for kind in FILTERS), interpolated_backward),
    "upsample_bilinear2d_aa": antialiased,
    **dict.fromkeys(NEAREST, copied_nearest),
    **dict.fromkeys((f"{name}_backward" for name in NEAREST), nearest_backward),
    **dict.fromkeys(PADS, padded),
    **dict.fromkeys((f"{name}_backward" for name in PADS), padded_backward),
    **dict.fromkeys(("max_pool2d_with_indices", "avg_pool2d", "avg_pool3d"), pooled),
    **dict.fromkeys(("max_pool2d_with_indices_backward", "avg_pool2d_backward"), pooled_backward),
    **dict.fromkeys(("adaptive_avg_pool2d", "adaptive_max_pool2d"), adaptively_pooled),
    **dict.fromkeys(("adaptive_avg_pool2d_backward", "adaptive_max_pool2d_backward"), adaptively_pooled_backward),
    "im2col": unfolded,
    "col2im": folded,
    **dict.fromkeys(("grid_sampler_2d", "cudnn_grid_sampler"), sampled),
    **dict.fromkeys(("grid_sampler_2d_backward", "cudnn_grid_sampler_backward"), sampled_backward),
    "prelu_kernel": sloped,
    "prelu_kernel_backward": sloped_backward,
    **dict.fromkeys(("pixel_shuffle", "pixel_unshuffle", "channel_shuffle"), shuffled),
    "rot90": turned,
}
"""Prices of operations on images."""
NAMED: Sequence[Any] = (
    topk, sort, nll_loss_backward, convolution_backward, cudnn_batch_norm_backward, logsumexp, nll_loss2d_backward,
    binary_cross_entropy, binary_cross_entropy_backward, scatter_reduce, index_reduce, segment_reduce,
    masked_scatter, index_fill, multinomial, renorm, polar, angle,
)  # fmt: skip
"""Prices that are called like torch's operations."""
PRICES: Mapping[str, Price] = {
    **dict.fromkeys(SIMPLE | MATH | MATH_BACKWARD | SERIES_OF | DRAWN, elementwise),
    **dict.fromkeys(MULTIPLYING, matmul),
    "grouped_mm": grouped,
    "int_mm": integer_product,
    "weight_int4pack_mm": _packed_product,
    **dict.fromkeys((f"scaled_dot_product_{kind}_attention" for kind in ("cudnn", "flash", "efficient")), attention),
    **dict.fromkeys(
        (f"scaled_dot_product_{kind}_attention_backward" for kind in ("cudnn", "flash", "efficient")),
        attention_backward,
    ),
    **dict.fromkeys(REDUCED, reduction),
    **dict.fromkeys(("softmax", "log_softmax", "masked_softmax"), softmax),
    **dict.fromkeys(("softmax_backward_data", "log_softmax_backward_data"), softmax_backward),
    **dict.fromkeys(("native_layer_norm", "fused_rms_norm"), layer_norm),
    **dict.fromkeys(("native_layer_norm_backward", "fused_rms_norm_backward"), layer_norm_backward),
    **dict.fromkeys(
        ("native_batch_norm", "cudnn_batch_norm", "native_batch_norm_legit", "native_batch_norm_legit_no_training"),
        batch_norm,
    ),
    "native_group_norm": group_norm,
    "native_group_norm_backward": group_norm_backward,
    **dict.fromkeys(("cumsum", "cumprod"), running_sum),
    **dict.fromkeys(("histc", "bincount"), histogram),
    "transform_bias_rescale_qkv": split_heads,
    **dict.fromkeys(("constant_pad_nd", "slice_backward", "select_backward"), placed),
    **dict.fromkeys(("repeat", "flip", "roll", "glu"), spread),
    **dict.fromkeys(("slice_scatter", "select_scatter"), inserted),
    "nll_loss_forward": nll_loss,
    **dict.fromkeys(("cat", "stack"), cat),
    **dict.fromkeys(("tril", "triu"), triangle),
    **dict.fromkeys(("embedding", "index", "unsafe_index", "index_select", "gather"), gather),
    **dict.fromkeys(("index_put", "index_put_impl", "index_add", "index_copy", "scatter", "scatter_add"), scatter),
    "embedding_dense_backward": embedding_backward,
    **dict.fromkeys(("convolution", "cudnn_convolution"), convolution),
    "native_batch_norm_backward": batch_norm_backward,
    **dict.fromkeys(("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"), loss_of_elements),
    "binary_cross_entropy_with_logits": loss_of_logits,
    "inductor::_mm_plus_mm": sum_of_products,
    **IMAGES,
    **{price.__name__: price for price in NAMED},
    "native_dropout": _dropout,
    **dict.fromkeys(("thnn_fused_gru_cell", "thnn_fused_lstm_cell"), recurrent_cell),
    **dict.fromkeys(("arange", "linspace", "eye"), _arange),
    **dict.fromkeys(("fft_r2c", "fft_c2r", "fft_c2c"), transform),
    "cudnn_rnn": recurrent_layers,
    "nll_loss2d_forward": nll_loss2d,
    **dict.fromkeys(("embedding_bag", "embedding_bag_forward_only"), embedding_bag),
    **dict.fromkeys(("embedding_bag_backward", "embedding_bag_dense_backward"), embedding_bag_backward),
    **dict.fromkeys(("cummax", "cummin", "logcumsumexp"), running_choice),
    **dict.fromkeys(("bucketize", "searchsorted"), searched),
    **dict.fromkeys(("kthvalue", "median", "nanmedian"), ranked),
    "euclidean_dist": euclidean,
    "cdist_forward": distances,
    "weight_norm_interface": weight_norm,
    "linalg_cross": cross,
    "linalg_solve_triangular": triangles_solved,
    **dict.fromkeys(("diag_embed", "diagonal_copy"), diagonals),
    "complex": joined,
    "rrelu_with_noise": leaky_noise,
}
"""torch's name, without underscores around it -> its price."""
OTHERS: Mapping[Price | None, Callable[[Operation], str]] = {
    **dict.fromkeys((convolution, convolution_backward), other_kernel),
    **{sort: other_sort, histogram: other_histogram, recurrent_layers: other_layers, multinomial: other_draws},
}
"""Price -> what kind of operation it does not know, in words; empty: it knows it."""


def price_step(
    step: RecordedStep,
    device: Device,
    simulated: Mapping[int, PricedKernel | str],
    stated: Sequence[StatedPrice] = (),
    l2: L2 = "empty",
) -> tuple[tuple[PricedKernel, ...], ...]:
    """The kernels of each operation of a step, in order.

    L2 keeps whole tensors from operation to operation.

    Args:
        step: as it was recorded.
        device: whose rates count.
        simulated: number of a Triton operation in `step.operations` -> its kernel, from machine code; or why there is
            none, in one line.
        stated: prices that go before all others.
        l2: what the step finds there: what itself has left (`warm`), zeros that are yet to be written back (`cold`).
    """

    def triton(number: int, operation: Operation, gpu: Gpu) -> PricedKernel:
        return _triton(operation, simulated[number], gpu)

    return _priced(step, Gpu(device), triton, stated, l2)


def kernels_before(
    step: RecordedStep, device: Device, stated: Sequence[StatedPrice] = (), l2: L2 = "warm"
) -> dict[int, Before]:
    """What ran before each Triton kernel of a step, by number of the operation. Args: as `price_step`."""
    before: dict[int, Before] = {}

    def triton(number: int, operation: Operation, gpu: Gpu) -> PricedKernel:
        before[number] = recent(gpu.kernels, device.l2_bytes)
        return refused(operation, gpu, "")

    _priced(step, Gpu(device), triton, stated, l2)
    return before


def _priced(
    step: RecordedStep,
    gpu: Gpu,
    triton: Callable[[int, Operation, Gpu], PricedKernel],
    stated: Sequence[StatedPrice],
    l2: L2,
) -> tuple[tuple[PricedKernel, ...], ...]:
    """The kernels of each operation. Args: triton: gives that of a Triton operation, by its number."""

    def kernels(number: int, operation: Operation) -> tuple[PricedKernel, ...]:
        if kernel := stated_kernel(operation, stated, gpu):
            return (kernel,)
        if operation.kind == "triton":
            return (triton(number, operation, gpu),)
        return price(operation, gpu)

    if l2 == "cold":
        gpu.kernel("Memset", (), (ZEROS,))
    for _ in range(2 if l2 == "warm" else 1):
        priced = tuple(kernels(number, operation) for number, operation in enumerate(step.operations))
    return priced


def price(operation: Operation, gpu: Gpu) -> tuple[PricedKernel, ...]:
    """The kernels of one operation of torch; one that is refused where it has no price."""
    waits = is_collective(operation) and operation.name.endswith(WAITS)
    if waits or not any(operand.elements for operand in (*operation.inputs, *operation.outputs)):
        return ()
    name = operation.name.strip("_")
    if reason := _against(name, operation):
        return (refused(operation, gpu, reason),)
    family = foreach if name.startswith("foreach_") or operation.name in OPTIMIZERS else PRICES.get(name)
    if family is None:
        return (refused(operation, gpu, _unknown(operation)),)
    gpu.one_shape.clear()
    try:
        kernels = family(operation, gpu)
        one_shape = tuple(dict.fromkeys(gpu.one_shape))
        return tuple(replace(kernel, one_shape=one_shape) for kernel in kernels) if one_shape else tuple(kernels)
    except NoPrice as operands:
        return (refused(operation, gpu, _of_kind(operation, str(operands))),)
    except Exception as error:
        return (refused(operation, gpu, internal(error, f"price of {operation.name}")),)


def _of_kind(operation: Operation, kind: str) -> str:
    """Why operands of a kind have no price. Args: kind: e.g. `of float64`."""
    return f"{operation.name} {kind} has no price; its bytes are a lower bound"


def _unknown(operation: Operation) -> str:
    """Why an operation of a name that nobody knows has no price."""
    name = operation.name
    if is_collective(operation):
        return f"a collective of several GPUs; --price {name}=450GB/s states its bandwidth"
    if "::" in name:
        return f"an operation of others than torch; --price {name}=12us states its time"
    return f"torch's operation {name} has no price; its bytes are a lower bound"


def _against(name: str, operation: Operation) -> str:
    """Why an operation of a known name has no price all the same; empty: it has one."""
    if name in ("copy", "to_copy") and len(operation.inputs) < (2 if name == "copy" else 1):
        return "a copy from the host takes as long as the bus does, which has no price"
    if not operation.outputs:
        return f"{operation.name} hands its result to the host, which has no price"
    if operation.arguments.get("layer"):
        return (
            "recurrent layers of packed sequences run in cuDNN, whole, and have no price; here they are seen by steps"
        )
    dtype, family = operation.inputs[0].dtype if operation.inputs else "", PRICES.get(name)
    convolved = family in (convolution, convolution_backward)
    if (convolved or family in (matmul, grouped)) and dtype not in MULTIPLIED:
        return _of_kind(operation, f"of {dtype}")
    if convolved and operation.arguments.get("transposed") and is_depthwise(operation):
        return "transposed depthwise convolutions have no price; their bytes are a lower bound"
    kinds = OTHERS[family](operation) if family in OTHERS else ""
    return _of_kind(operation, kinds) if kinds else ""


def refused(operation: Operation, gpu: Gpu, reason: str) -> PricedKernel:
    """A kernel without a price: the least that its bytes take. Args: reason: one line."""
    least = gpu.kernel(operation.name, operation.inputs, operation.outputs, source="refused")
    size = least.hbm_read_bytes + least.hbm_write_bytes
    return PricedKernel(
        name=operation.name,
        source="refused",
        time_s=size / gpu.device.hbm_peak_bytes_per_s,
        bound_by="HBM",
        hbm_read_bytes=least.hbm_read_bytes,
        hbm_write_bytes=least.hbm_write_bytes,
        l2_bytes=least.l2_bytes,
        reason=reason,
    )


def _triton(operation: Operation, simulated: PricedKernel | str, gpu: Gpu) -> PricedKernel:
    """A kernel from machine code. L2 is touched by its tensors either way, for the operations that follow."""
    least = refused(operation, gpu, simulated if isinstance(simulated, str) else "")
    return least if isinstance(simulated, str) else simulated
