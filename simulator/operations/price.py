"""Which kernels operations of a step launch, and what each takes.

Each family of operations has a price of its own in `families`; whatever belongs to none is refused: it is given the
least time that its bytes take, and a reason, and stands outside every total.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from ..device.device import Device
from ..jobs.attempts import internal
from ..launch.before import Before, recent
from ..prediction.timing import ZEROED_BYTES
from .cost_model import KernelCostModel
from .families import (
    collectives,
    copies,
    elementwise,
    fft,
    foreach,
    indexing,
    losses,
    normalization,
    recurrent,
    reductions,
    scans,
    scatter,
    softmax,
    sorting,
)
from .families.attention import attention, paged
from .families.convolutions import convolution, depthwise
from .families.images import pooling, upsample
from .families.names import DRAWN, MATH, MATH_BACKWARD, REDUCED, SERIES_OF, SIMPLE
from .families.products import linalg, matmul, scaled
from .operation import Operand, Operation, RecordedStep
from .priced import KernelEstimate, Kernels, NoPrice
from .stated import WAITS, UserEstimate, is_collective, stated_kernel

Price = Callable[[Operation, KernelCostModel], Kernels]
L2 = Literal["empty", "warm", "cold"]
ZEROS = Operand(storage=1 << 40, storage_bytes=ZEROED_BYTES, shape=(ZEROED_BYTES,), strides=(1,), dtype="uint8")
"""What `do_bench` writes before each call."""


def _dropout(operation: Operation, gpu: KernelCostModel) -> Kernels:
    return [elementwise.random_fill("dropout", operation.inputs, operation.outputs, gpu)]


def _arange(operation: Operation, gpu: KernelCostModel) -> Kernels:
    return [gpu.kernel("arange", (), operation.outputs)]


PRICED: Sequence[tuple[Price, str]] = (
    (
        attention.attention,
        "scaled_dot_product_cudnn_attention scaled_dot_product_flash_attention scaled_dot_product_efficient_attention",
    ),
    (
        attention.attention_backward,
        "scaled_dot_product_cudnn_attention_backward scaled_dot_product_flash_attention_backward "
        "scaled_dot_product_efficient_attention_backward",
    ),
    (attention.split_heads, "transform_bias_rescale_qkv"),
    (
        paged.paged_attention,
        "vllm_fa2_C::varlen_fwd vllm_fa3_C::fwd flashinfer::trtllm_batch_decode_with_kv_cache "
        "flashinfer::trtllm_batch_context_with_kv_cache",
    ),
    (paged.written, "C_cache_ops::reshape_and_cache_flash"),
    (convolution.convolution, "convolution cudnn_convolution"),
    (convolution.convolution_backward, "convolution_backward"),
    *((copies.cat, "cat stack"), (copies.split_copied, "split_with_sizes_copy chunk_cat")),
    (copies.pad_and_slice_backward, "constant_pad_nd slice_backward select_backward"),
    (copies.pixel_shuffle, "pixel_shuffle pixel_unshuffle channel_shuffle"),
    (copies.repeat_flip_roll, "repeat flip roll glu"),
    (copies.rot90, "rot90"),
    (copies.slice_scatter, "slice_scatter select_scatter"),
    (copies.tril, "tril triu"),
    (elementwise.angle, "angle"),
    (elementwise.complex_, "complex"),
    (elementwise.polar, "polar"),
    (elementwise.prelu, "prelu_kernel"),
    (elementwise.prelu_backward, "prelu_kernel_backward"),
    (elementwise.rrelu_with_noise, "rrelu_with_noise"),
    (fft.fft, "fft_r2c fft_c2r fft_c2c"),
    (indexing.embedding_backward, "embedding_dense_backward"),
    (indexing.gather, "embedding index unsafe_index index_select gather"),
    (indexing.scatter, "index_put index_put_impl index_add index_copy scatter scatter_add"),
    (indexing.searchsorted, "bucketize searchsorted"),
    (linalg.cdist, "cdist_forward"),
    (linalg.cross, "linalg_cross"),
    (linalg.diag_embed, "diag_embed diagonal_copy"),
    (linalg.euclidean_dist, "euclidean_dist"),
    (linalg.grouped_mm, "grouped_mm"),
    (linalg.int_mm, "int_mm"),
    (linalg.renorm, "renorm"),
    (linalg.solve_triangular, "linalg_solve_triangular"),
    (linalg.sum_of_products, "inductor::_mm_plus_mm"),
    (linalg.weight_norm, "weight_norm_interface"),
    (losses.binary_cross_entropy, "binary_cross_entropy"),
    (losses.binary_cross_entropy_backward, "binary_cross_entropy_backward"),
    (losses.loss_of_elements, "mse_loss l1_loss smooth_l1_loss huber_loss"),
    (losses.loss_of_logits, "binary_cross_entropy_with_logits"),
    (losses.nll_loss, "nll_loss_forward"),
    (losses.nll_loss2d, "nll_loss2d_forward"),
    (losses.nll_loss2d_backward, "nll_loss2d_backward"),
    (losses.nll_loss_backward, "nll_loss_backward"),
    (scaled.quantized, "C::static_scaled_fp8_quant"),
    (scaled.scaled_mm, "C::cutlass_scaled_mm"),
    (matmul.matmul, "mm bmm addmm addmm_activation baddbmm linear mv addmv scaled_mm"),
    (
        normalization.batch_norm,
        "native_batch_norm cudnn_batch_norm native_batch_norm_legit native_batch_norm_legit_no_training",
    ),
    (normalization.batch_norm_backward, "native_batch_norm_backward"),
    (normalization.cudnn_batch_norm_backward, "cudnn_batch_norm_backward"),
    (normalization.group_norm, "native_group_norm"),
    (normalization.group_norm_backward, "native_group_norm_backward"),
    (normalization.layer_norm, "native_layer_norm fused_rms_norm"),
    (normalization.layer_norm_backward, "native_layer_norm_backward fused_rms_norm_backward"),
    (pooling.adaptive_pool, "adaptive_avg_pool2d adaptive_max_pool2d"),
    (pooling.adaptive_pool_backward, "adaptive_avg_pool2d_backward adaptive_max_pool2d_backward"),
    (pooling.col2im, "col2im"),
    (pooling.im2col, "im2col"),
    (
        pooling.pad,
        "reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d replication_pad2d replication_pad3d",
    ),
    (
        pooling.pad_backward,
        "reflection_pad1d_backward reflection_pad2d_backward reflection_pad3d_backward replication_pad1d_backward "
        "replication_pad2d_backward replication_pad3d_backward",
    ),
    (pooling.pool, "max_pool2d_with_indices avg_pool2d avg_pool3d"),
    (pooling.pool_backward, "max_pool2d_with_indices_backward avg_pool2d_backward"),
    (recurrent.cudnn_rnn, "cudnn_rnn"),
    (recurrent.recurrent_cell, "thnn_fused_gru_cell thnn_fused_lstm_cell"),
    (scans.cummax, "cummax cummin logcumsumexp"),
    (scans.cumsum, "cumsum cumprod"),
    (scans.histogram, "histc bincount"),
    (scatter.embedding_bag, "embedding_bag embedding_bag_forward_only"),
    (scatter.embedding_bag_backward, "embedding_bag_backward embedding_bag_dense_backward"),
    (scatter.index_fill, "index_fill"),
    (scatter.index_reduce, "index_reduce"),
    (scatter.masked_scatter, "masked_scatter"),
    (scatter.scatter_reduce, "scatter_reduce"),
    (scatter.segment_reduce, "segment_reduce"),
    (softmax.logsumexp, "logsumexp"),
    (softmax.softmax, "softmax log_softmax masked_softmax"),
    (softmax.softmax_backward, "softmax_backward_data log_softmax_backward_data"),
    (sorting.kthvalue, "kthvalue median nanmedian"),
    (sorting.multinomial, "multinomial"),
    (sorting.sort, "sort"),
    (sorting.topk, "topk"),
    (upsample.grid_sampler, "grid_sampler_2d cudnn_grid_sampler"),
    (upsample.grid_sampler_backward, "grid_sampler_2d_backward cudnn_grid_sampler_backward"),
    (upsample.upsample, "upsample_linear1d upsample_bilinear2d upsample_trilinear3d upsample_bicubic2d"),
    (upsample.upsample_antialiased, "upsample_bilinear2d_aa"),
    (
        upsample.upsample_backward,
        "upsample_linear1d_backward upsample_bilinear2d_backward upsample_trilinear3d_backward "
        "upsample_bicubic2d_backward",
    ),
    (
        upsample.upsample_nearest,
        "upsample_nearest1d upsample_nearest2d upsample_nearest3d upsample_nearest_exact1d "
        "upsample_nearest_exact2d upsample_nearest_exact3d",
    ),
    (
        upsample.upsample_nearest_backward,
        "upsample_nearest1d_backward upsample_nearest2d_backward upsample_nearest3d_backward "
        "upsample_nearest_exact1d_backward upsample_nearest_exact2d_backward upsample_nearest_exact3d_backward",
    ),
    (_arange, "arange linspace eye"),
    (_dropout, "native_dropout"),
    (linalg.packed_product, "weight_int4pack_mm"),
)
"""Prices, and what they are of: torch's names, without underscores around them."""
PRICES: Mapping[str, Price] = {
    **dict.fromkeys(SIMPLE | MATH | MATH_BACKWARD | SERIES_OF | DRAWN, elementwise.elementwise),
    **dict.fromkeys(REDUCED, reductions.reduction),
    **{name: price for price, names in PRICED for name in names.split()},
}
OTHERS: Mapping[Price | None, Callable[[Operation], str]] = {
    **dict.fromkeys((convolution.convolution, convolution.convolution_backward), depthwise.other_kernel),
    **{
        sorting.sort: sorting.other_sort,
        scans.histogram: scans.other_histogram,
        recurrent.cudnn_rnn: recurrent.other_rnn,
        sorting.multinomial: sorting.other_draws,
    },
}
"""Price -> what kind of operation it does not know, in words; empty: it knows it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPrices:
    """What a step takes without its Triton kernels.

    Args:
        kernels: of each operation; a Triton operation has the least that its bytes take.
        before: number of a Triton operation -> what ran before it.
    """

    kernels: tuple[tuple[KernelEstimate, ...], ...]
    before: Mapping[int, Before]

    def with_triton(self, simulated: Mapping[int, KernelEstimate | str]) -> tuple[tuple[KernelEstimate, ...], ...]:
        """All kernels of each operation. Args: simulated: as of `price_step`."""
        return tuple(
            (_simulated(kernels[0], simulated[number]),) if number in self.before else kernels
            for number, kernels in enumerate(self.kernels)
        )


def price_step(
    step: RecordedStep,
    device: Device,
    simulated: Mapping[int, KernelEstimate | str],
    stated: Sequence[UserEstimate] = (),
    l2: L2 = "empty",
) -> tuple[tuple[KernelEstimate, ...], ...]:
    """The kernels of each operation of a step, in order.

    Args:
        simulated: number of a Triton operation in `step.operations` -> its kernel, from machine code; or why there is
            none, in one line.
        step, device, stated, l2: as `price_around_triton` has them.
    """
    return price_around_triton(step, device, stated, l2).with_triton(simulated)


def price_around_triton(
    step: RecordedStep, device: Device, stated: Sequence[UserEstimate] = (), l2: L2 = "empty"
) -> StepPrices:
    """Price a step but for its Triton kernels, whose tensors L2 is touched by all the same.

    L2 keeps whole tensors from operation to operation.

    Args:
        step: as it was recorded.
        device: whose rates count.
        stated: prices that go before all others.
        l2: what the step finds there: what itself has left (`warm`), zeros that are yet to be written back (`cold`).
    """
    gpu = KernelCostModel(device)
    before: dict[int, Before] = {}

    def kernels(number: int, operation: Operation) -> tuple[KernelEstimate, ...]:
        if kernel := stated_kernel(operation, stated, gpu):
            return (kernel,)
        if operation.kind == "triton":
            before[number] = recent(gpu.kernels, device.l2_bytes)
            return (refused(operation, gpu, ""),)
        return price(operation, gpu)

    if l2 == "cold":
        gpu.kernel("Memset", (), (ZEROS,))
    for _ in range(2 if l2 == "warm" else 1):
        priced = tuple(kernels(number, operation) for number, operation in enumerate(step.operations))
    return StepPrices(kernels=priced, before=before)


def price(operation: Operation, gpu: KernelCostModel) -> tuple[KernelEstimate, ...]:
    """The kernels of one operation of torch; one that is refused where it has no price."""
    waits = is_collective(operation) and operation.name.endswith(WAITS)
    if waits or not any(operand.elements for operand in (*operation.inputs, *operation.outputs)):
        return ()
    name = operation.name.strip("_")
    if reason := _against(name, operation):
        return (refused(operation, gpu, reason),)
    family = _family(name, operation)
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


def _family(name: str, operation: Operation) -> Price | None:
    """The price of a name. Args: name: without underscores around it."""
    if name.startswith("foreach_") or operation.name in foreach.OPTIMIZERS:
        return foreach.foreach
    if collectives.plain_name(operation) in collectives.KINDS:
        return collectives.collective
    return PRICES.get(name)


def _of_kind(operation: Operation, kind: str) -> str:
    """Why operands of a kind have no price. Args: kind: e.g. `of float64`."""
    cure = f"--price {operation.name}=450GB/s states its bandwidth"
    cure = cure if is_collective(operation) else "its bytes are a lower bound"
    return f"{operation.name} {kind} has no price; {cure}"


def _unknown(operation: Operation) -> str:
    """Why an operation of an unknown name has no price."""
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
    if not operation.outputs and not is_collective(operation):
        return f"{operation.name} hands its result to the host, which has no price"
    if operation.arguments.get("layer"):
        return "recurrent layers of packed sequences run in cuDNN, and have no price; here they are seen by steps"
    dtype, family = operation.inputs[0].dtype if operation.inputs else "", PRICES.get(name)
    convolved = family in (convolution.convolution, convolution.convolution_backward)
    if (convolved or family in (matmul.matmul, linalg.grouped_mm)) and dtype not in matmul.MULTIPLIED:
        return _of_kind(operation, f"of {dtype}")
    if convolved and operation.arguments.get("transposed") and depthwise.is_depthwise(operation):
        return "transposed depthwise convolutions have no price; their bytes are a lower bound"
    kinds = OTHERS[family](operation) if family in OTHERS else ""
    return _of_kind(operation, kinds) if kinds else ""


def refused(operation: Operation, gpu: KernelCostModel, reason: str) -> KernelEstimate:
    """A kernel without a price: the least that its bytes take. Args: reason: one line."""
    least = gpu.kernel(operation.name, operation.inputs, operation.outputs, source="refused")
    size = least.hbm_read_bytes + least.hbm_write_bytes
    return KernelEstimate(
        name=operation.name,
        source="refused",
        time_s=size / gpu.device.hbm_peak_bytes_per_s,
        bound_by="HBM",
        hbm_read_bytes=least.hbm_read_bytes,
        hbm_write_bytes=least.hbm_write_bytes,
        l2_bytes=least.l2_bytes,
        reason=reason,
    )


def _simulated(least: KernelEstimate, made: KernelEstimate | str) -> KernelEstimate:
    """A kernel from machine code; or the least that its bytes take, and why."""
    return replace(least, reason=made) if isinstance(made, str) else made
