"""Depthwise convolutions: torch's own kernels, which take an output (or a gradient) a thread; cuDNN's of channels last.

Source: `_select_conv_backend` (ATen/native/Convolution.cpp) and ATen/native/cuda/DepthwiseConv2d.cu, torch 2.11 to
2.13. Convolutions along one dimension are run as of two, from a contiguous copy.
"""

from dataclasses import dataclass, replace
from math import ceil, prod

from ...cost_model import SERIAL, KernelCostModel, memset, scratch
from ...operation import Operand, Operation
from ...priced import KernelEstimate, Kernels
from ..elementwise import iterate
from ..reductions import SUM, reduced

THREADS = 1024
UNROLLED = (1, 3, 5)
"""Sides of square windows that have kernels of their own."""
GRADIENT_THREADS = 256
GRADIENT_CTAS_PER_SM = 8
LOOPED = 4
"""Places that one of the two loops over a row takes; rows of whole ones, or of fewer, go through one loop alone."""
VECTOR = 4
"""Channels that these kernels take at a time: 96 to 768 and 240 have them, three have others. Kind: measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """Instructions for an output: `first`, and for each row and each place of its window more."""

    first: float
    row: float
    place: float

    def of(self, window: tuple[int, ...]) -> float:
        """Of a window of rows and places in a row."""
        return self.first + self.row * prod(window[:-1]) + self.place * prod(window)


def is_depthwise(operation: Operation) -> bool:
    """Whether each channel has a convolution of its own, which is no matrix product."""
    groups = int(operation.arguments.get("groups", 1))
    return groups > 1 and operation.inputs[2 if "backward" in operation.name else 1].shape[1] == 1


def other_kernel(operation: Operation) -> str:
    """What kind of depthwise convolution runs a kernel that has no price, in words; empty: it has one, or is none."""
    if not is_depthwise(operation):
        return ""
    gradients = "backward" in operation.name
    source, weights = operation.inputs[1:3] if gradients else operation.inputs[:2]
    if len(source.shape) not in (3, 4):
        return "depthwise in three dimensions"
    if _is_cudnn(source, weights):
        if source.dtype == "float32":
            known = not gradients or _has_gradients_last(operation)
        else:
            known = not gradients and source.dtype in ("bfloat16", "float16")
        return "" if known else "depthwise of channels-last tensors (cuDNN)"
    if source.dtype != "float16" or source.shape[1] < 32 or _is_dilated(operation):
        return ""
    steps = tuple(operation.arguments.get("stride", (1,)))
    planar, square = len(source.shape) == 4 and source.shape[2] > 1, weights.shape[2:] in ((1, 1), (3, 3), (5, 5))
    takes = steps == (1,) * len(steps) if not planar else square and source.shape[3] >= 7 and len(set(steps)) == 1
    return "depthwise of float16 (cuDNN)" if takes else ""


def depthwise(operation: Operation, gpu: KernelCostModel) -> Kernels:
    """Kernels of a depthwise convolution, forward; its bias is added in the same one."""
    output, window = operation.outputs[0], operation.inputs[1].shape[2:]
    if _is_cudnn(*operation.inputs[:2]):
        if operation.inputs[0].dtype == "float32" and output.shape[1] % VECTOR:
            main = _few_channels_last(operation.inputs[0], operation.inputs[1], output, gpu)
        else:
            main = [_channels_last(operation.inputs[:2], output, window, gpu)]
        return [*main, *(added(output, bias, gpu) for bias in operation.inputs[2:])]
    kernels, operands = _contiguous(operation.inputs, gpu)
    weights = operands[1]
    counted = forward_counted(weights, gpu)
    return [*kernels, _walk("conv_depthwise2d_forward", operands, output, counted, window, gpu)]


def _channels_last(
    reads: tuple[Operand, ...], output: Operand, window: tuple[int, ...], gpu: KernelCostModel
) -> KernelEstimate:
    """One forward, or of the gradient of the input."""
    counted = counted_of("nhwc_float32" if output.dtype == "float32" else "nhwc", gpu)
    issued = counted.of(window) * output.elements
    name = "conv2d_nhwc_depthwise"
    return gpu.kernel(
        name, reads, (output,), instructions=issued, chain=gpu.cost("depthwise.nhwc_loads"), overlap=SERIAL
    )


def _few_channels_last(source: Operand, weights: Operand, output: Operand, gpu: KernelCostModel) -> Kernels:
    """All channels in one kernel where the window is of one row, and otherwise in one of each."""
    window, channels = weights.shape[2:], output.shape[1]
    if window[0] == 1:
        issued = gpu.cost("depthwise.grouped_direct_place_instructions") * prod(window) * output.elements
        name = "conv2d_grouped_direct"
        return [gpu.kernel(name, (source, weights), (output,), instructions=issued, overlap=SERIAL)]
    issued = counted_of("common", gpu).of(window) * output.elements / channels
    kernels = []
    for channel in range(channels):
        image, made = (
            replace(
                operand,
                shape=(operand.shape[0], 1, *operand.shape[2:]),
                offset_bytes=operand.offset_bytes + channel * operand.strides[1] * operand.item_bytes,
            )
            for operand in (source, output)
        )
        name = "convolve_common_engine"
        kernels.append(gpu.kernel(name, (image, weights), (made,), instructions=issued, overlap=SERIAL))
    return kernels


def _has_gradients_last(operation: Operation) -> bool:
    """Whether gradients, channels last, are of the kind that was measured: a window at each pixel, of many channels."""
    gradient, source = operation.inputs[:2]
    steps = (*operation.arguments.get("stride", ()), *operation.arguments.get("dilation", ()))
    return not source.shape[1] % VECTOR and source.shape == gradient.shape and all(step == 1 for step in steps)


def _backward_channels_last(operation: Operation, gpu: KernelCostModel) -> Kernels:
    """Gradients in float32, channels last."""
    gradient, source, weights = operation.inputs[:3]
    window, outputs = weights.shape[2:], iter(operation.outputs)
    wanted = operation.arguments.get("output_mask", (True, True, False))
    kernels = []
    if wanted[0]:
        kernels.append(_channels_last((gradient, weights), next(outputs), window, gpu))
    if wanted[1]:
        of_weights = next(outputs)
        issued = gpu.cost("depthwise.nhwc_weights_place_instructions") * gradient.elements * prod(window)
        name, reads = "conv2d_nhwc_depthwise_grad_weight", (gradient, source)
        kernels += [
            memset(gpu),
            gpu.kernel(name, reads, (of_weights,), instructions=issued, overlap=SERIAL),
            gpu.kernel(f"{name}_post", (), (of_weights,), latency_s=gpu.cost("depthwise.nhwc_weights_post_s")),
        ]
    if wanted[2]:
        axes = tuple(axis for axis in range(len(gradient.shape)) if axis != 1)
        kernels += reduced(gradient, (next(outputs),), axes, gpu, SUM)
    return kernels


def depthwise_backward(operation: Operation, gpu: KernelCostModel) -> Kernels:
    """Gradients of the weights, the input and the bias, as far as they are wanted (`output_mask`)."""
    if _is_cudnn(*operation.inputs[1:3]):
        return _backward_channels_last(operation, gpu)
    kernels, (gradient, source, weights) = _contiguous(operation.inputs[:3], gpu)
    outputs = iter(operation.outputs)
    of_input, of_weights, of_bias = (
        next(outputs) if wanted else None for wanted in operation.arguments.get("output_mask", (True, True, False))
    )
    if of_weights:
        ctas = weights.elements
        turns = ceil(gradient.elements // gradient.shape[1] / GRADIENT_THREADS)
        waves = max(ctas / (GRADIENT_CTAS_PER_SM * gpu.sms), 1.0)
        issued = (
            gpu.cost("depthwise.weights_instructions")
            * gradient.elements
            * prod(weights.shape[2:])
            / gpu.cost("depthwise.issue_fraction")
        )
        kernels.append(
            gpu.kernel(
                "conv_depthwise2d_grad_weight",
                (gradient, source),
                (of_weights,),
                instructions=issued,
                ctas=ctas,
                latency_s=turns
                * waves
                * gpu.cost("depthwise.weights_loads")
                * gpu.cycles_s(gpu.device.l2_latency_cycles),
                overlap=SERIAL,
            )
        )
    if of_input:
        counted = counted_of("backward_unrolled" if _is_unrolled(weights) else "backward", gpu)
        operands = [gradient, weights]
        kernels.append(_walk("conv_depthwise2d_backward", operands, of_input, counted, weights.shape[2:], gpu))
    if of_bias:
        axes = tuple(axis for axis in range(len(gradient.shape)) if axis != 1)
        kernels += reduced(gradient, (of_bias,), axes, gpu, SUM)
    return kernels


def added(output: Operand, bias: Operand, gpu: KernelCostModel) -> KernelEstimate:
    """The kernel that adds the bias of each channel."""
    channels = replace(bias, shape=(output.shape[1], *(1 for _ in output.shape[2:])))
    return iterate("add", (output, replace(channels, strides=(1, *(0 for _ in output.shape[2:])))), output, gpu)


def is_channels_last(operand: Operand) -> bool:
    """Whether torch takes strides for those of channels together (`suggest_memory_format`); never of lines."""
    rank, least = len(operand.shape), 0
    if rank < 4 or not operand.strides[1]:
        return False
    for axis in (1, *range(rank - 1, 1, -1), 0):
        if operand.strides[axis] < least or (axis == 0 and least == operand.strides[1]):
            return False
        least = operand.strides[axis] * max(operand.shape[axis], 1)
    return True


def _is_cudnn(source: Operand, weights: Operand) -> bool:
    return len(source.shape) == 4 and (is_channels_last(source) or is_channels_last(weights))


def _walk(
    name: str, operands: list[Operand], output: Operand, counted: Counted, window: tuple[int, ...], gpu: KernelCostModel
) -> KernelEstimate:
    issued = counted.of(window) * output.elements / gpu.cost("depthwise.issue_fraction")
    ctas = ceil(output.elements / THREADS)
    return gpu.kernel(name, operands, (output,), instructions=issued, ctas=ctas, chain=2, overlap=SERIAL)


def _contiguous(operands: tuple[Operand, ...], gpu: KernelCostModel) -> tuple[Kernels, list[Operand]]:
    """Operands in the order of their dimensions, and the kernels that copy those that are in another."""
    kernels, ordered = [], []
    for operand in operands:
        made = scratch(operand, 0, shape=operand.shape)
        if operand.elements > 1 and _steps(operand) != _steps(made):
            kernels.append(iterate("copy", (operand,), made, gpu))
            operand = made
        ordered.append(operand)
    return kernels, ordered


def _steps(operand: Operand) -> list[int]:
    return [stride for stride, size in zip(operand.strides, operand.shape, strict=True) if size > 1]


def counted_of(kernel: str, gpu: KernelCostModel, *, row: float = 0.0) -> Counted:
    """Instructions of a kernel. Args: kernel: as keys of its costs begin; row: of each row of a window."""
    first = gpu.cost(f"depthwise.{kernel}_instructions")
    return Counted(first=first, row=row, place=gpu.cost(f"depthwise.{kernel}_place_instructions"))


def forward_counted(weights: Operand, gpu: KernelCostModel) -> Counted:
    """Instructions of torch's kernel for a window."""
    if _is_unrolled(weights):
        return counted_of("forward_unrolled", gpu)
    places = weights.shape[-1]
    kernel = "forward_one_loop" if places < LOOPED or places % LOOPED == 0 else "forward"
    counted = counted_of(kernel, gpu, row=gpu.cost(f"depthwise.{kernel}_row_instructions"))
    if weights.dtype != "float32":
        return counted
    less = counted_of("float32_less", gpu)
    return replace(counted, first=counted.first - less.first, place=counted.place - less.place)


def _is_unrolled(weights: Operand) -> bool:
    window = (1, *weights.shape[2:])[-2:]
    return window[0] == window[1] and window[0] in UNROLLED


def _is_dilated(operation: Operation) -> bool:
    return any(step > 1 for step in operation.arguments.get("dilation", ()))
