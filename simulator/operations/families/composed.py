"""Operations that torch makes of others, out of its dispatcher's sight: the kernels of these, one by one."""

from dataclasses import replace

from ..gpu import SERIAL, Gpu, scratch
from ..operation import Operand, Operation
from ..priced import PricedKernel
from .elementwise import iterate
from .products.matmul import matmul
from .reductions import LARGEST, MEAN, SUM, reduced


def logsumexp(operation: Operation, gpu: Gpu) -> list[PricedKernel]:
    """`logsumexp`: largest elements (infinite ones as 0), exponentials of differences, their sums, logarithms."""
    source, output = operation.inputs[0], operation.outputs[0]
    given = operation.arguments.get("dim", ())
    axes = tuple(given) if isinstance(given, list | tuple) else (given,)
    largest, infinite, powers = scratch(output, 0), scratch(output, 1, dtype="bool"), scratch(source, 2)
    kept = _kept(source, largest, axes)
    return [
        *reduced(source, (largest,), axes, gpu, LARGEST),
        iterate("abs", (largest,), scratch(output, 3), gpu),
        iterate("eq", (scratch(output, 3),), infinite, gpu),
        iterate("masked_fill", (largest, infinite), largest, gpu),
        iterate("sub", (source, kept), powers, gpu),
        iterate("exp", (powers,), powers, gpu),
        *reduced(powers, (output,), axes, gpu, SUM),
        iterate("log", (output,), output, gpu),
        iterate("add", (output, largest), output, gpu),
    ]


def sum_of_products(operation: Operation, gpu: Gpu) -> list[PricedKernel]:
    """`inductor::_mm_plus_mm`: a product, and another that is added to it."""
    a, b, c, d, *_ = operation.inputs
    output = operation.outputs[:1]
    first = replace(operation, name="mm", inputs=(a, b), outputs=output)
    second = replace(operation, name="addmm", inputs=(*output, c, d), outputs=output)
    return [*matmul(first, gpu), *matmul(second, gpu)]


def loss_of_logits(operation: Operation, gpu: Gpu) -> list[PricedKernel]:
    """`binary_cross_entropy_with_logits`: (1 - y) x - log sigmoid x, and its mean or sum."""
    logits, targets = operation.inputs[:2]
    output = operation.outputs[0]
    losses, logarithms = scratch(logits, 0), scratch(logits, 1)
    kernels = [
        iterate("log_sigmoid_forward", (logits,), logarithms, gpu),
        iterate("fill", (), losses, gpu),
        iterate("sub", (losses, targets), losses, gpu),
        iterate("mul", (losses, logits), losses, gpu),
        iterate("sub", (losses, logarithms), losses, gpu),
    ]
    return [*kernels, *_meaned(operation, losses, output, gpu)]


def loss_of_elements(operation: Operation, gpu: Gpu) -> list[PricedKernel]:
    """`mse_loss`, `l1_loss`, `smooth_l1_loss`, `huber_loss`: of each element, and their mean or sum."""
    output = operation.outputs[0]
    losses = scratch(operation.inputs[0], 0)
    return [iterate("sub", operation.inputs, losses, gpu), *_meaned(operation, losses, output, gpu)]


def recurrent_cell(operation: Operation, gpu: Gpu) -> list[PricedKernel]:
    """`_thnn_fused_gru_cell`, `_thnn_fused_lstm_cell`: gates of both products and their biases, an element a thread."""
    issued = gpu.cost("recurrent.cell_instructions") * operation.outputs[0].elements
    reads, writes = operation.inputs, operation.outputs
    note = "instructions of a recurrent cell are assumed"
    return [gpu.kernel("recurrent_cell", reads, writes, instructions=issued, chain=4, overlap=SERIAL, note=note)]


def _meaned(operation: Operation, losses: Operand, output: Operand, gpu: Gpu) -> list[PricedKernel]:
    """Kernels of the reduction that a loss is asked for: 0 none, 1 mean, 2 sum."""
    kind = operation.arguments.get("reduction", 1)
    return reduced(losses, (output,), (), gpu, SUM if kind == 2 else MEAN) if kind else []


def _kept(source: Operand, reduced_to: Operand, axes: tuple[int, ...]) -> Operand:
    """What a reduction gives, with sizes of 1 along its axes."""
    rank = len(source.shape)
    gone = {axis % rank for axis in axes} if axes else set(range(rank))
    shape = tuple(1 if axis in gone else size for axis, size in enumerate(source.shape))
    return scratch(reduced_to, 0, shape=shape)
