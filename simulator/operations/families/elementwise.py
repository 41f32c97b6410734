"""Elementwise operations, by TensorIterator's rules: which of three kernels runs, and what it issues an element.

- all operands of one type and dense in one order: `vectorized_elementwise_kernel`, whose loads go ahead of its work;
- dense, but cast on the way: `unrolled_elementwise_kernel`;
- broadcast or strided: `elementwise_kernel`, index arithmetic for every element, one element after the other.

`prelu`, `complex`, `polar`, `angle` and `rrelu_with_noise` stand at the end.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cmp_to_key
from math import prod

from ..cost_model import LANES, OVERLAPPED, SERIAL, KernelCostModel, scratch
from ..operation import Operand, Operation
from ..priced import KernelEstimate, Kernels, NoPrice
from .names import DRAWN, FILLED, MATH, MATH_BACKWARD, SERIES_OF

THREADS = 128
NARROW = ("bfloat16", "float16", "float8_e4m3fn", "float8_e5m2")
LINE_BYTES = 128
DEAR = (
    (MATH, "elementwise.transcendental_instructions"),
    (MATH_BACKWARD, "elementwise.transcendental_backward_instructions"),
    (SERIES_OF, "elementwise.series_instructions"),
)
"""Names of operations, and what they issue an element beyond simple ones."""
REAL = {"complex32": "float16", "complex64": "float32", "complex128": "float64"}
"""Type of complex numbers -> of their parts."""
POLAR = 2
"""Functions of an element: a sine, a cosine."""


def elementwise(operation: Operation, gpu: KernelCostModel) -> Kernels:
    """The kernel of an elementwise operation; of `masked_fill` a copy before it."""
    name, output = operation.name.strip("_"), operation.outputs[0]
    inputs = list(operation.inputs)
    if operation.name == "masked_fill":
        filled = iterate("masked_fill", (output, inputs[1]), output, gpu)
        return [copied(inputs[0], output, gpu), filled]
    if name in FILLED:
        inputs = []
    if name == "copy":
        return [copied(inputs[-1], output, gpu)]
    if name in ("clone", "to_copy") or (name == "pow" and operation.arguments.get("exponent") == 1.0):
        return [copied(inputs[0], output, gpu)]
    if name in DRAWN:
        return [random_fill(name, (), operation.outputs, gpu)]
    more = [operand for operand in operation.outputs[1:] if operand.shape == output.shape]
    return [iterate(name, inputs, output, gpu, more_outputs=more)]


def random_fill(
    name: str, inputs: Sequence[Operand], outputs: Sequence[Operand], gpu: KernelCostModel
) -> KernelEstimate:
    """A kernel that draws a random number for every element."""
    return gpu.kernel(
        f"distribution_{name}",
        inputs,
        outputs,
        instructions=gpu.cost("elementwise.random_instructions") * outputs[0].elements,
        chain=5,
    )


def copied(source: Operand, target: Operand, gpu: KernelCostModel) -> KernelEstimate:
    """A copy: the copy engine's where nothing changes, else a kernel's."""
    same = source.dtype == target.dtype and source.is_dense and source.shape == target.shape
    if same and source.strides == target.strides:
        return gpu.kernel("Memcpy DtoD", (source,), (target,))
    return iterate("copy", (source,), target, gpu)


def contiguous(source: Operand, number: int, gpu: KernelCostModel) -> tuple[Kernels, Operand]:
    """A tensor in the order of its dimensions, and the copy that makes it where it is not.

    Args:
        number: of the tensors that an operation makes for itself (`scratch`).
    """
    if source.is_contiguous:
        return [], source
    made = scratch(source, number, shape=source.shape)
    return [iterate("copy", (source,), made, gpu)], made


def in_order(*operands: Operand) -> None:
    """Refuse tensors whose channels lie together, or with gaps: other kernels, or copies before these, run there."""
    if not all(operand.is_contiguous for operand in operands):
        raise NoPrice("of tensors that are not in the order of their dimensions")


def iterate(
    name: str, inputs: Sequence[Operand], output: Operand, gpu: KernelCostModel, *, more_outputs: Sequence[Operand] = ()
) -> KernelEstimate:
    """The kernel that TensorIterator launches for operands."""
    tensors = list(inputs)
    shape, strides = coalesced((output, *tensors, *more_outputs))
    elements, outputs = output.elements, (output, *more_outputs)
    types = {operand.dtype for operand in (output, *tensors) if operand.dtype != "bool" or name == "copy"}
    cast = len(types) > 1 and not (name == "copy" and output.dtype in NARROW and types - set(NARROW) == {"float32"})
    if len(shape) <= 1 and all(run in ((1,), ()) for run in strides):
        if cast:
            issued = (
                gpu.cost("elementwise.indexed_instructions")
                + gpu.cost("elementwise.cast_instructions") * max(len(tensors) - 1, 0)
            ) * elements
            ctas = elements / (4 * THREADS)
            return gpu.kernel(
                "unrolled_elementwise", tensors, outputs, instructions=issued, ctas=ctas, chain=8, overlap=SERIAL
            )
        issued = elements * gpu.cost(
            next((key for names, key in DEAR if name in names), "elementwise.vectorised_instructions")
        )
        narrowest = min(operand.item_bytes for operand in (output, *tensors))
        ctas = elements / (THREADS * {1: 16, 2: 8}.get(narrowest, 4))
        return gpu.kernel(
            "vectorized_elementwise", tensors, outputs, instructions=issued, ctas=ctas, chain=1, overlap=OVERLAPPED
        )
    further = gpu.cost("elementwise.further_index_instructions") * max(len(shape) - 2, 0) * max(len(tensors) - 1, 0)
    further += gpu.cost("elementwise.cast_instructions") if cast and len(tensors) > 1 else 0.0
    work = 2 if output.item_bytes >= 4 else 4
    moved, again = scattered_bytes(shape, (output, *tensors), strides, work, gpu)
    lines = scattered_lines(shape, (output, *tensors), strides, work)
    return gpu.kernel(
        "elementwise",
        tensors,
        outputs,
        instructions=(gpu.cost("elementwise.indexed_instructions") + further) * elements
        + lines * gpu.device.issue_per_cycle * LANES,
        ctas=elements / (work * THREADS),
        chain=2 * work,
        l2_s=moved / gpu.device.l2_bytes_per_s,
        read_again=again,
        overlap=SERIAL,
    )


def scattered_bytes(
    shape: Sequence[int], operands: Sequence[Operand], strides: Sequence[Sequence[int]], work: int, gpu: KernelCostModel
) -> tuple[float, float]:
    """What sectors cost that lanes of a warp do not share, as neighbours lie a stride apart: of L2, of HBM again [B].

    A CTA asks once for a sector whose next element it comes to within its own elements. Where all sectors that are
    touched until then overflow L2, HBM sends it anew.

    Args:
        shape, strides: of `coalesced`; operands: the output first; work: elements that a thread takes.
    """
    moved = again = 0.0
    elements, sector = prod(shape), gpu.device.sector_bytes
    for number, (operand, run) in enumerate(zip(operands, strides, strict=True)):
        step = run[0] * operand.item_bytes if run else 0
        if step > operand.item_bytes:
            apart = prod(shape[: run.index(1)]) if 1 in run else elements
            used = min(max(work * THREADS / apart, 1.0), sector / operand.item_bytes)
            asked = elements * min(sector, step) / (used * _repeated(shape, run, work))
            moved += asked
            if number and 1 in run and apart * min(sector, step) > gpu.cache.capacity_bytes:
                again += max(asked - operand.bytes, 0.0)
    return moved, again


def scattered_lines(
    shape: Sequence[int], operands: Sequence[Operand], strides: Sequence[Sequence[int]], work: int
) -> float:
    """Lines that lanes touch apart from their neighbours; L1 takes one a cycle, and warps wait for it.

    Lanes of a warp that have come to the next of neighbours share the lines of those before. The same elements again,
    broadcast, are not waited for: 33 million differences of fp16 with minima of 32 took an H200 153 us, 275 otherwise.
    """
    lines = 0.0
    for operand, run in zip(operands, strides, strict=True):
        if run and run[0] > 1:
            lanes = min(shape[0] / LANES, 1.0) if len(run) > 1 and run[1] in (0, 1) else 1.0
            apart = min(run[0] * operand.item_bytes / LINE_BYTES, 1.0)
            lines += prod(shape) * apart * lanes / _repeated(shape, run, work)
    return lines


def _repeated(shape: Sequence[int], run: Sequence[int], work: int) -> float:
    """How often a CTA comes to the same elements of an operand again, as they are broadcast."""
    if 0 not in run[1:]:
        return 1.0
    axis = run.index(0, 1)
    return min(max(work * THREADS / prod(shape[:axis]), 1.0), shape[axis])


def coalesced(operands: Sequence[Operand]) -> tuple[list[int], list[tuple[int, ...]]]:
    """Shape and strides, innermost dimension first, as TensorIterator walks them.

    Dimensions are in the order of the output's strides; those are joined that lie behind each other in every operand;
    broadcast ones have stride 0.
    """
    shape = operands[0].shape
    rank = len(shape)
    strides = [_broadcast(operand, shape) for operand in operands]

    def before(left: int, right: int) -> int:
        for run in strides:
            if run[left] != run[right] and run[left] and run[right]:
                return -1 if run[left] < run[right] else 1
        return right - left

    order = [axis for axis in sorted(range(rank), key=cmp_to_key(before)) if shape[axis] != 1]
    sizes: list[int] = []
    runs: list[list[int]] = [[] for _ in operands]
    for axis in order:
        if sizes and all(run[axis] == walked[-1] * sizes[-1] for run, walked in zip(strides, runs, strict=True)):
            sizes[-1] *= shape[axis]
            continue
        sizes.append(shape[axis])
        for run, walked in zip(strides, runs, strict=True):
            walked.append(run[axis])
    return sizes, [tuple(walked) for walked in runs]


def _broadcast(operand: Operand, shape: tuple[int, ...]) -> tuple[int, ...]:
    missing = len(shape) - len(operand.shape)
    known = zip(operand.shape, operand.strides, strict=True)
    return (0,) * missing + tuple(
        stride if size == wide else 0 for (size, stride), wide in zip(known, shape[missing:], strict=True)
    )


def prelu(operation: Operation, gpu: KernelCostModel) -> Kernels:
    """Elements, or those that are negative times their channel's slope."""
    return [iterate("prelu", operation.inputs, operation.outputs[0], gpu)]


def prelu_backward(operation: Operation, gpu: KernelCostModel) -> Kernels:
    """Gradients of elements, and of each one's slope, which a sum adds up afterwards."""
    issued = gpu.cost("elementwise.prelu_backward_instructions") * operation.outputs[0].elements
    reads, writes = operation.inputs, operation.outputs
    return [gpu.kernel("prelu_backward", reads, writes, instructions=issued, chain=4, overlap=OVERLAPPED)]


def complex_(operation: Operation, gpu: KernelCostModel) -> Kernels:
    """`complex`: real and imaginary parts side by side."""
    return [iterate("complex", operation.inputs, operation.outputs[0], gpu)]


def polar(operation: Operation, gpu: KernelCostModel) -> Kernels:
    """One kernel, without casts."""
    issued = POLAR * gpu.cost("elementwise.transcendental_instructions") * operation.outputs[0].elements
    return [gpu.kernel("polar", operation.inputs, operation.outputs, instructions=issued, chain=1)]


def angle(operation: Operation, gpu: KernelCostModel) -> Kernels:
    """Of complex numbers a complex result, whose real parts are copied; of real ones one kernel."""
    source, output = operation.inputs[0], operation.outputs[0]
    if source.dtype not in REAL:
        return [iterate("atan", (source,), output, gpu)]
    made = scratch(source, 0)
    parts = replace(made, dtype=REAL[source.dtype], strides=tuple(2 * stride for stride in made.strides))
    return [iterate("atan2", (source,), made, gpu), iterate("copy", (parts,), output, gpu)]


def rrelu_with_noise(operation: Operation, gpu: KernelCostModel) -> Kernels:
    """`rrelu_with_noise`: in training a slope is drawn, and kept, for every element."""
    source, output = operation.inputs[0], operation.outputs[0]
    if operation.arguments.get("training"):
        issued, writes = gpu.cost("elementwise.rrelu_instructions") * source.elements, (output, *operation.inputs[1:2])
        return [gpu.kernel("rrelu_with_noise", (source,), writes, instructions=issued, chain=2, overlap=SERIAL)]
    return [iterate("leaky_relu", (source,), output, gpu)]
