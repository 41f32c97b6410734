"""Depthwise convolutions: torch's own kernels, which take an output (or a gradient) a thread; cuDNN's of channels last.

Source: `_select_conv_backend` (ATen/native/Convolution.cpp) and ATen/native/cuda/DepthwiseConv2d.cu, torch 2.11 to
2.13. Convolutions along one dimension are run as of two, from a contiguous copy. Instructions of torch's kernels for an
output were counted by running torch 2.11's machine code for sm_90 through the simulator
(docs/lab/torch_machine_code.py), and are met by 5 % forward, 12 % backward. Most are index arithmetic: divisions by
sizes that the compiler does not know.
"""

from dataclasses import dataclass, replace
from math import ceil, prod

from ...gpu import SERIAL, Gpu, scratch
from ...operation import Operand, Operation
from ...priced import PricedKernel
from ..elementwise import iterate
from ..reductions import SUM, reduced

THREADS = 1024
UNROLLED = (1, 3, 5)
"""Sides of square windows that have kernels of their own."""
GRADIENT_THREADS = 256
GRADIENT_CTAS_PER_SM = 8
GRADIENT_LOADS = 1.35
"""Latencies of L2 in an output's turn of the gradient of weights, whose loads do not go ahead. Kind: counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """Instructions for an output: `first`, and for each row and each place of its window more. Kind: counted."""

    first: float
    row: float
    place: float

    def of(self, window: tuple[int, ...]) -> float:
        """Of a window of rows and places in a row."""
        return self.first + self.row * prod(window[:-1]) + self.place * prod(window)


FORWARD, FORWARD_UNROLLED = Counted(first=178, row=50, place=7.4), Counted(first=128, row=0, place=12)
BACKWARD, BACKWARD_UNROLLED = Counted(first=149, row=0, place=21.7), Counted(first=160, row=0, place=13.5)
ISSUED = 0.75
"""Of the issue slots that such code reaches: conversions and multiplications to the high half go at a quarter and half
of the rate. Kind: fitted, a window of 4 of 8 x 2048 x 2048 elements on one H100 (2026-11-27), which it meets as well as
windows of 7 x 7 and 3 x 3."""
CHANNELS_LAST = Counted(first=25, row=0, place=5)
"""Of cuDNN's `conv2d_c1_k1_nhwc_specialized`. Kind: fitted, 7 x 7 of 32 x 96 x 56 x 56 elements on one H100
(2026-11-27); 3 x 3 it meets by 20 %, 7 x 7 of planes of 7 x 7, which wait, by 35 %."""
CHANNELS_LAST_LOADS = 15
WEIGHTS = 36.0
"""Of the gradient of weights for an output and a place in the window. Kind: counted."""


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
        known = not gradients and source.dtype in ("bfloat16", "float16")
        return "" if known else "depthwise of channels-last tensors (cuDNN)"
    if source.dtype != "float16" or source.shape[1] < 32 or _is_dilated(operation):
        return ""
    steps = tuple(operation.arguments.get("stride", (1,)))
    planar, square = len(source.shape) == 4 and source.shape[2] > 1, weights.shape[2:] in ((1, 1), (3, 3), (5, 5))
    takes = steps == (1,) * len(steps) if not planar else square and source.shape[3] >= 7 and len(set(steps)) == 1
    return "depthwise of float16 (cuDNN)" if takes else ""


def depthwise(operation: Operation, gpu: Gpu) -> list[PricedKernel]:
    """Kernels of a depthwise convolution, forward; its bias is added in the same one."""
    output, window = operation.outputs[0], operation.inputs[1].shape[2:]
    if _is_cudnn(*operation.inputs[:2]):
        issued = CHANNELS_LAST.of(window) * output.elements
        main = gpu.kernel(
            "conv2d_nhwc_depthwise",
            operation.inputs[:2],
            (output,),
            instructions=issued,
            chain=CHANNELS_LAST_LOADS,
            overlap=SERIAL,
        )
        return [main, *(added(output, bias, gpu) for bias in operation.inputs[2:])]
    kernels, operands = _contiguous(operation.inputs, gpu)
    weights = operands[1]
    counted = FORWARD_UNROLLED if _is_unrolled(weights) else FORWARD
    return [*kernels, _walk("conv_depthwise2d_forward", operands, output, counted, window, gpu)]


def depthwise_backward(operation: Operation, gpu: Gpu) -> list[PricedKernel]:
    """Gradients of the weights, the input and the bias, as far as they are wanted (`output_mask`)."""
    kernels, (gradient, source, weights) = _contiguous(operation.inputs[:3], gpu)
    outputs = iter(operation.outputs)
    of_input, of_weights, of_bias = (
        next(outputs) if wanted else None for wanted in operation.arguments.get("output_mask", (True, True, False))
    )
    if of_weights:
        ctas = weights.elements
        turns = ceil(gradient.elements // gradient.shape[1] / GRADIENT_THREADS)
        waves = max(ctas / (GRADIENT_CTAS_PER_SM * gpu.sms), 1.0)
        issued = WEIGHTS * gradient.elements * prod(weights.shape[2:]) / ISSUED
        kernels.append(
            gpu.kernel(
                "conv_depthwise2d_grad_weight",
                (gradient, source),
                (of_weights,),
                instructions=issued,
                ctas=ctas,
                latency_s=turns * waves * GRADIENT_LOADS * gpu.cycles_s(gpu.device.l2_latency_cycles),
                overlap=SERIAL,
            )
        )
    if of_input:
        counted = BACKWARD_UNROLLED if _is_unrolled(weights) else BACKWARD
        operands = [gradient, weights]
        kernels.append(_walk("conv_depthwise2d_backward", operands, of_input, counted, weights.shape[2:], gpu))
    if of_bias:
        axes = tuple(axis for axis in range(len(gradient.shape)) if axis != 1)
        kernels += reduced(gradient, (of_bias,), axes, gpu, SUM)
    return kernels


def added(output: Operand, bias: Operand, gpu: Gpu) -> PricedKernel:
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
    name: str, operands: list[Operand], output: Operand, counted: Counted, window: tuple[int, ...], gpu: Gpu
) -> PricedKernel:
    issued = counted.of(window) * output.elements / ISSUED
    ctas = ceil(output.elements / THREADS)
    return gpu.kernel(name, operands, (output,), instructions=issued, ctas=ctas, chain=2, overlap=SERIAL)


def _contiguous(operands: tuple[Operand, ...], gpu: Gpu) -> tuple[list[PricedKernel], list[Operand]]:
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


def _is_unrolled(weights: Operand) -> bool:
    window = (1, *weights.shape[2:])[-2:]
    return window[0] == window[1] and window[0] in UNROLLED


def _is_dilated(operation: Operation) -> bool:
    return any(step > 1 for step in operation.arguments.get("dilation", ()))
