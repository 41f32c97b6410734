"""Layer, RMS, group and batch norms: rows are loaded, agree on mean and deviation, and are written."""

from math import ceil, prod

from ..cost_model import OVERLAPPED, SERIAL, KernelCostModel, memset, scratch
from ..operation import Operand, Operation
from ..priced import KernelEstimate, Kernels
from .elementwise import contiguous, copied, iterate
from .reductions import SUM, reduced

NORM_CTAS_PER_SM = 16
NORM_THREADS = 128
TILE_COLUMNS, ROWS_OF_THREAD = 32, 8
"""Of a CTA that sums gradients of weights, and rows that each of its threads loads at a time; TILE_THREADS: fewer rows
-> its threads along them; from more than MANY_ROWS on it leaves sums to others, MOST_TILES CTAs at most.
Source: `LaunchGammaBetaBackwardCUDAKernel`, ATen/native/cuda/layer_norm_kernel.cu, torch 2.7 to 2.13."""
TILE_THREADS = ((64, 1), (128, 8), (256, 16), (1 << 62, 32))
MANY_ROWS, MOST_TILES = 64 << 10, 32 << 10
MOMENT_THREADS = 512
INFERENCE_THREADS, INFERENCE_CTAS = 256, 8
"""Of cuDNN's kernel for known moments (`bn_fw_inf_1C11`), whose CTA takes a channel of an image, and its CTAs on an SM.
Kind: assumed."""
INFERENCE_IMAGES = 65535
"""Most images that torch leaves to cuDNN with known moments (`_batch_norm_impl_index`, native/Normalization.cpp)."""
PLANE_THREADS, MOST_PLANES = 64, 256 << 10
"""Of the CTA that scales a channel of images, and most of them (`batch_norm_elemt_cuda_template`,
ATen/native/cuda/Normalization.cuh)."""


def layer_norm(operation: Operation, gpu: KernelCostModel) -> Kernels:
    """`native_layer_norm` and `_fused_rms_norm`: a CTA loads its row twice, the second time from where it is."""
    source = operation.inputs[0]
    row = prod(operation.arguments.get("normalized_shape", ())) or source.shape[-1]
    rows = source.elements // row
    centred = "rms" not in operation.name
    copies, source = contiguous(source, 0, gpu)
    issued = (gpu.cost("norm.layer_instructions" if centred else "norm.rms_instructions")) * source.elements
    issued += (
        (gpu.cost("norm.layer_row_instructions" if centred else "norm.rms_row_instructions")) * NORM_THREADS * rows
    )
    missed = float(gpu.cache.readable_bytes(source.storage) < source.bytes)
    return [
        *copies,
        gpu.kernel(
            "layer_norm" if centred else "rms_norm",
            (source, *operation.inputs[1:]),
            operation.outputs,
            instructions=issued,
            ctas=rows,
            chain=gpu.cost("norm.layer_loads") * row / 4096 if centred else 0.0,
            end_s=0.0 if centred else gpu.chain_s(gpu.cost("norm.rms_loads") * row / 4096, missed),
            read_again=_read_again((source,), row, gpu),
            overlap=SERIAL if centred else OVERLAPPED,
        ),
    ]


def layer_norm_backward(operation: Operation, gpu: KernelCostModel) -> Kernels:
    """Gradients of a norm: of its input, then of its weights, as far as they are wanted (`output_mask`)."""
    wanted = operation.arguments.get("output_mask", (True, len(operation.outputs) > 1))
    copies, gradient = contiguous(operation.inputs[0], 0, gpu)
    more, source = contiguous(operation.inputs[1], 1, gpu)
    kernels = [*copies, *more]
    row = prod(operation.arguments.get("normalized_shape", ())) or source.shape[-1]
    if wanted[0]:
        kernels.append(
            gpu.kernel(
                "layer_norm_grad_input",
                (gradient, source, *operation.inputs[2:]),
                operation.outputs[:1],
                instructions=gpu.cost("norm.layer_backward_instructions") * source.elements,
                ctas=source.elements / row,
                chain=20,
                read_again=_read_again((gradient, source), row, gpu),
                overlap=SERIAL,
            )
        )
    if any(wanted[1:]):
        kernels += _weights_backward(gradient, source, operation.outputs[1 if wanted[0] else 0 :], gpu)
    return kernels


def _read_again(sources: tuple[Operand, ...], row: int, gpu: KernelCostModel) -> float:
    """Bytes that L2 has lost when CTAs load their rows once more: those at work, and their results, overflow it [B]."""
    rows = sources[0].elements // row
    live = min(rows, NORM_CTAS_PER_SM * gpu.sms) * row * sources[0].item_bytes * (len(sources) + 1)
    lost = min(max(live / gpu.cache.capacity_bytes - 1.0, 0.0), 1.0)
    return lost * sum(source.bytes for source in sources)


def _weights_backward(
    gradient: Operand, source: Operand, outputs: tuple[Operand, ...], gpu: KernelCostModel
) -> Kernels:
    """`GammaBetaBackwardCUDAKernelTemplate`: a CTA goes down all rows of 32 columns, so few columns keep few SMs busy.

    Of very many rows of few columns it takes 32, and what it leaves is summed (`LaunchGammaBetaBackwardCUDAKernel`).
    """
    name, columns = "layer_norm_grad_weights", max(outputs[0].elements, 1)
    rows, across = source.elements // columns, ceil(columns / TILE_COLUMNS)
    if rows > MANY_ROWS and columns // TILE_COLUMNS < gpu.sms // 2:
        down = min(MOST_TILES // across, ceil(rows / TILE_COLUMNS))
        sums = [scratch(output, 0, shape=(down, columns)) for output in outputs]
        issued = gpu.cost("norm.weights_backward_instructions") * source.elements
        first = gpu.kernel(
            name, (gradient, source), sums, instructions=issued, ctas=across * down, chain=4, overlap=SERIAL
        )
        added = [reduced(made, (output,), (0,), gpu, SUM) for made, output in zip(sums, outputs, strict=True)]
        return [first, *(kernel for kernels in added for kernel in kernels)]
    threads = next(size for most, size in TILE_THREADS if rows < most)
    turns = ceil(rows / (ROWS_OF_THREAD * threads)) * ceil(across / gpu.sms)
    issued = gpu.cost("norm.weights_backward_instructions") * TILE_COLUMNS * ROWS_OF_THREAD * threads * turns
    return [
        gpu.kernel(
            name,
            (gradient, source),
            outputs,
            instructions=issued * gpu.sms,
            chain=2 * turns,
            end_s=gpu.cost("reduction.cta_s") if threads > 1 else 0.0,
            overlap=SERIAL,
        )
    ]


def group_norm(operation: Operation, gpu: KernelCostModel) -> Kernels:
    """`native_group_norm`: moments of each group, factors of each channel, the product."""
    source, moments = operation.inputs[0], operation.outputs[1:]
    groups = max(moments[0].elements, 1) if moments else 1
    waves = max(groups / (4 * gpu.sms), 1.0)
    loads = gpu.cost("norm.moment_loads") * source.elements / groups / MOMENT_THREADS
    factors = operation.inputs[1:]
    return [
        gpu.kernel("group_moments", (source,), moments, chain=loads * waves, overlap=SERIAL),
        gpu.kernel("group_factors", (*moments, *factors), (), chain=5),
        _scaled(operation, gpu, "elementwise"),
    ]


def group_norm_backward(operation: Operation, gpu: KernelCostModel) -> Kernels:
    """Its gradients: sums over each channel of an image, factors of groups, the input's, and those of the weights.

    Source: `GroupNormBackwardKernelImplInternal`, ATen/native/cuda/group_norm_kernel.cu, torch 2.11 to 2.13.
    """
    wanted = operation.arguments.get("output_mask", (True, True, True))
    copies, gradient = contiguous(operation.inputs[0], 0, gpu)
    more, source = contiguous(operation.inputs[1], 1, gpu)
    images, channels, *plane = source.shape
    planes = images * channels
    sums = scratch(source, 2, shape=(2 * planes,), dtype="float32")
    loads = gpu.cost("norm.moment_loads") * prod(plane) / MOMENT_THREADS * max(planes / (4 * gpu.sms), 1.0)
    kernels = [
        *copies,
        *more,
        gpu.kernel("group_norm_sums", (gradient, source), (sums,), ctas=planes, chain=loads, overlap=SERIAL),
    ]
    if wanted[0]:
        issued = gpu.cost("norm.channel_instructions") * source.elements
        factors = operation.inputs[2:]
        kernels += [
            gpu.kernel("elementwise", factors, (), chain=8),
            gpu.kernel("group_factors", (sums, *factors), (), chain=5),
            gpu.kernel(
                "elementwise",
                (gradient, source),
                operation.outputs[:1],
                instructions=issued,
                chain=8,
                overlap=SERIAL,
            ),
        ]
    if any(wanted[1:]):
        weights = operation.outputs[1 if wanted[0] else 0 :]
        kernels.append(gpu.kernel("group_norm_grad_weights", (sums,), weights, chain=images))
    return kernels


def batch_norm(operation: Operation, gpu: KernelCostModel) -> Kernels:
    """`native_batch_norm` and its like: statistics where they are learnt, and their update; the product."""
    training = operation.arguments.get("training", "no_training" not in operation.name)
    source, moments = operation.inputs[0], operation.outputs[1:]
    last = _is_channels_last(source)
    if training and operation.name == "cudnn_batch_norm":
        if last:
            return [
                memset(gpu),
                _channels_together("cudnn_batch_norm", operation, 1, gpu.cost("norm.cudnn_nhwc_instructions"), gpu),
            ]
        return [_channels_walked("cudnn_batch_norm", operation, 1, gpu)]
    if not training and _inferred_by_cudnn(operation):
        return _channels_inferred(operation, gpu)
    if training:
        name, issued = (
            "batch_norm_collect_statistics",
            gpu.cost("norm.nhwc_moments_instructions") * source.elements if last else 0.0,
        )
        loads = 0.0 if last else _channel_loads(source, gpu)
        first = [
            *_semaphores(source, gpu),
            gpu.kernel(name, (source,), moments, instructions=issued, chain=loads, overlap=SERIAL),
            gpu.kernel("unrolled_elementwise", moments, operation.inputs[-2:], chain=2),
        ]
    else:
        mean = operation.inputs[-1]
        wide = scratch(mean, 0, dtype="float32")
        first = [copied(mean, wide, gpu), iterate("rsqrt", (mean,), mean, gpu)]
    return [*first, _scaled(operation, gpu, "batch_norm_transform")]


def batch_norm_backward(operation: Operation, gpu: KernelCostModel) -> Kernels:
    """Its gradient: a CTA goes through its channel for the sums, and again for the input's; of channels last apart."""
    operands = operation.inputs[:2]
    if _is_channels_last(operands[1]):
        of_input, of_weights = operation.outputs[:1], operation.outputs[1:]
        elements = operands[1].elements
        reduced_by, scaled_by = (
            gpu.cost("norm.nhwc_sums_instructions") * elements,
            gpu.cost("norm.nhwc_gradient_instructions") * elements,
        )
        return [
            *_semaphores(operands[1], gpu),
            gpu.kernel("batch_norm_reduce", operands, of_weights, instructions=reduced_by, overlap=SERIAL),
            gpu.kernel("batch_norm_backward", operands, of_input, instructions=scaled_by, overlap=SERIAL),
        ]
    issued = gpu.cost("norm.channel_instructions") * operands[0].elements
    loads = 2 * _channel_loads(operands[0], gpu)
    name = "batch_norm_backward"
    return [gpu.kernel(name, operands, operation.outputs, instructions=issued, chain=loads, overlap=SERIAL)]


def cudnn_batch_norm_backward(operation: Operation, gpu: KernelCostModel) -> Kernels:
    """Gradients of batch norms that cuDNN has done, in either layout."""
    if _is_channels_last(operation.inputs[0]):
        return [
            memset(gpu),
            _channels_together(
                "cudnn_batch_norm_backward", operation, 2, gpu.cost("norm.cudnn_nhwc_backward_instructions"), gpu
            ),
        ]
    return [_channels_walked("cudnn_batch_norm_backward", operation, 2, gpu)]


def _channels_walked(name: str, operation: Operation, operands: int, gpu: KernelCostModel) -> KernelEstimate:
    """A kernel of cuDNN's for batch norms in training: a CTA walks its channel for sums, and again for results.

    Args:
        operands: its first inputs, that are as large as images.
    """
    source = operation.inputs[0]
    channels = source.shape[1]
    turns = ceil(source.elements / channels / MOMENT_THREADS) * max(channels / (4 * gpu.sms), 1.0)
    loads = gpu.cost("norm.cudnn_loads") * 2 * operands * turns
    return gpu.kernel(name, operation.inputs[:operands], operation.outputs[:1], chain=loads, overlap=SERIAL)


def _inferred_by_cudnn(operation: Operation) -> bool:
    """Whether torch leaves a batch norm with known moments to cuDNN, which takes no bf16 (`_batch_norm_impl_index`).

    Images whose channels lie together run another kernel of it, which was not measured.
    """
    source, *factors = operation.inputs
    single = len(factors) == 4 and factors[0].dtype == "float32" and source.dtype in ("float32", "float16")
    lines = len(source.shape) == 3 or (len(source.shape) > 3 and not _is_channels_last(source))
    return single and lines and source.shape[0] <= INFERENCE_IMAGES


def _channels_inferred(operation: Operation, gpu: KernelCostModel) -> Kernels:
    """The library's kernel for known moments: a CTA takes a channel of an image, however short; a copy before it."""
    copies, source = contiguous(operation.inputs[0], 0, gpu)
    images, channels, *plane = source.shape
    waves = max(images * channels / (INFERENCE_CTAS * gpu.sms), 1.0)
    loads = (
        gpu.cost("norm.cudnn_inference_loads") * ceil(prod(plane) / INFERENCE_THREADS)
        + gpu.cost("norm.cudnn_inference_start_loads")
    ) * waves
    reads = (source, *operation.inputs[1:])
    name, ctas = "cudnn_batch_norm_inference", float(images * channels)
    return [*copies, gpu.kernel(name, reads, operation.outputs[:1], ctas=ctas, chain=loads, overlap=SERIAL)]


def _channels_together(
    name: str, operation: Operation, operands: int, issued: float, gpu: KernelCostModel
) -> KernelEstimate:
    """The same of channels that lie together, after a memset. Args: issued: instructions for an element."""
    instructions = issued * operation.inputs[0].elements
    reads, writes = operation.inputs[:operands], operation.outputs[:1]
    return gpu.kernel(name, reads, writes, instructions=instructions, overlap=SERIAL)


def _is_channels_last(source: Operand) -> bool:
    """Whether channels are innermost (`batch_norm_choose_impl`, ATen/native/cuda/Normalization.cu)."""
    return len(source.shape) > 1 and source.strides[1] == 1 and source.is_dense


def _semaphores(source: Operand, gpu: KernelCostModel) -> Kernels:
    """Zeros of the CTAs that share channels, channels last: as many as 16 elements a thread leave, from 8 on.

    Source: `flexible_launch_configs`, ATen/native/cuda/Normalization.cuh, torch 2.11 to 2.13.
    """
    if not _is_channels_last(source):
        return []
    channels = source.shape[1]
    elements = source.elements // max(channels, 1)
    across = min(1 << (channels.bit_length() - 1), 32)
    down = min(1 << (ceil(elements / 16).bit_length() - 1), MOMENT_THREADS // across)
    return [gpu.kernel("vectorized_elementwise", (), ())] if ceil(elements / (down * 16)) >= 8 else []


def _channel_loads(source: Operand, gpu: KernelCostModel) -> float:
    """Latencies that a channel takes its CTA, a line of threads for each image (`getNumThreads`, Normalization.cuh)."""
    images, channels, *plane = source.shape
    threads = _plane_threads(prod(plane))
    turns = ceil(images / (MOMENT_THREADS // threads)) * ceil(prod(plane) / threads)
    return gpu.cost("norm.moment_loads") * turns * max(channels / (4 * gpu.sms), 1.0)


def _scaled(operation: Operation, gpu: KernelCostModel, name: str) -> KernelEstimate:
    """Each element by the factors of its channel; in batch norms a CTA takes a channel of an image, or of some."""
    source, output = operation.inputs[0], operation.outputs[:1]
    if name != "elementwise" and _is_channels_last(source):
        issued = gpu.cost("norm.nhwc_product_instructions") * source.elements
        return gpu.kernel(name, operation.inputs, output, instructions=issued, chain=2, overlap=SERIAL)
    issued, ctas = gpu.cost("norm.channel_instructions") * source.elements, 0.0
    if name != "elementwise":
        images, channels, *plane = source.shape
        threads = max(_plane_threads(prod(plane) // 4), min(_plane_threads(prod(plane)), PLANE_THREADS))
        down = ceil(images / max(PLANE_THREADS // threads, 1))
        ctas = channels * max(min(MOST_PLANES // channels, down), 1)
    return gpu.kernel(name, operation.inputs, output, instructions=issued, ctas=ctas, chain=8, overlap=SERIAL)


def _plane_threads(elements: int) -> int:
    return min(max(32, 1 << max(elements - 1, 0).bit_length()), MOMENT_THREADS)
