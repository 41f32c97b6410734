"""Operations that copy elements to other places: `cat`, `repeat`, `flip`, `roll`, `tril`, `rot90`, shuffles, padding.

`cat` and `stack` go by ATen/native/cuda/Shape.cu, torch 2.11 to 2.13. Up to four dimensions of one type are joined by
one kernel: 16 bytes at a time where the slices of all pieces are multiples of them, by index arithmetic for each
element where they are not. All else is copied piece by piece.
"""

from dataclasses import replace
from math import ceil, prod

from ..cost_model import SERIAL, KernelCostModel
from ..operation import Operand, Operation
from ..priced import KernelEstimate, Kernels
from .elementwise import copied, in_order, iterate

MOST_DIMS = 4
VECTOR_BYTES = 16
THREADS, ALIGNED_THREADS = 512, 128
"""Of a CTA of `CatArrayBatchedCopy`, of which each piece has two an SM, and of those of aligned pieces."""


def tril(operation: Operation, gpu: KernelCostModel) -> Kernels:
    """`tril` and `triu`."""
    output = operation.outputs[0]
    issued = gpu.cost("elementwise.triangle_instructions") * output.elements
    return [gpu.kernel("triu_tril", operation.inputs, (output,), instructions=issued, overlap=SERIAL)]


def slice_scatter(operation: Operation, gpu: KernelCostModel) -> Kernels:
    """`slice_scatter`, `select_scatter`: a copy of all, and one of what takes the place of a part."""
    source, pieces, output = *operation.inputs[:2], operation.outputs[0]
    kept = [stride for axis, stride in enumerate(output.strides) if axis != int(operation.arguments.get("dim", 0))]
    strides = output.strides if len(pieces.shape) == len(output.shape) else tuple(kept)
    place = replace(output, shape=pieces.shape, strides=strides)
    return [copied(source, output, gpu), copied(pieces, place, gpu)]


def pad_and_slice_backward(operation: Operation, gpu: KernelCostModel) -> Kernels:
    """`constant_pad_nd`, gradients of slices: an output is filled, and a part of it copied to."""
    source, output = operation.inputs[0], operation.outputs[0]
    strides, axis = list(output.strides), operation.arguments.get("dim", 0)
    if len(strides) > len(source.shape):
        del strides[axis]
    elif strides:
        strides[axis] *= int(operation.arguments.get("step", 1))
    pad = operation.arguments.get("pad", ())
    cut = [min(before, 0) + min(after, 0) for before, after in zip(pad[::2], pad[1::2], strict=True)]
    cut = [0] * (len(source.shape) - len(cut)) + cut[::-1]
    shape = tuple(size + less for size, less in zip(source.shape, cut, strict=True))
    target = replace(output, shape=shape, strides=tuple(strides))
    return [iterate("fill", (), output, gpu), copied(replace(source, shape=shape), target, gpu)]


def repeat_flip_roll(operation: Operation, gpu: KernelCostModel) -> Kernels:
    """`repeat`, `flip`, `glu`, up-sampling: every element of the output is looked up by index arithmetic.

    `roll` is a kernel of its own for each dimension.
    """
    output = operation.outputs[0]
    if operation.name == "roll":
        dims = operation.arguments.get("dims") or (0,)
        issued = gpu.cost("elementwise.roll_instructions") * output.elements
        return [gpu.kernel("roll", operation.inputs[:1], (output,), instructions=issued, overlap=SERIAL) for _ in dims]
    return [_strided(operation.inputs[:1], output, output.elements, gpu)]


def upsample_nhwc_backward(operation: Operation, gpu: KernelCostModel) -> Kernels:
    """`upsample_nearest2d_backward`: an element of the input's gradient adds up those that it was spread to."""
    gradient, output = operation.inputs[0], operation.outputs[0]
    issued = (
        gpu.cost("elementwise.indexed_instructions") * output.elements
        + gpu.cost("image.nhwc_spread_instructions") * gradient.elements
    )
    window = gradient.elements / max(output.elements, 1)
    return [gpu.kernel("upsample_backward", (gradient,), (output,), instructions=issued, chain=window, overlap=SERIAL)]


def _strided(reads: tuple[Operand, ...], output: Operand, elements: int, gpu: KernelCostModel) -> KernelEstimate:
    return gpu.kernel(
        "elementwise",
        reads,
        (output,),
        instructions=gpu.cost("elementwise.indexed_instructions") * elements,
        chain=8,
        overlap=SERIAL,
    )


def cat(operation: Operation, gpu: KernelCostModel) -> Kernels:
    """The kernel that joins pieces, or a copy of each."""
    pieces, output, axis = _along_an_axis(operation)
    types = {piece.dtype for piece in pieces} | {output.dtype}
    if len(output.shape) > MOST_DIMS or len(types) > 1 or len(pieces) < 2:
        return _copies(pieces, output, axis, gpu)
    alike = all(piece.is_contiguous for piece in pieces)
    is_plain = alike or all(_order(piece) == _order(output) and piece.is_dense for piece in pieces)
    is_aligned = all(piece.offset_bytes % VECTOR_BYTES == 0 for piece in pieces)
    slices = [prod(operand.shape[axis:]) * operand.item_bytes for operand in (*pieces, *((output,) if axis else ()))]
    if alike and is_aligned and all(size % VECTOR_BYTES == 0 for size in slices):
        ctas = output.bytes / (ALIGNED_THREADS * VECTOR_BYTES)
        again = _filled(pieces, output, axis, gpu)
        return [gpu.kernel("cat_vectorized", pieces, (output,), ctas=ctas, chain=2, read_again=again)]
    if is_plain and is_aligned:
        issued = gpu.cost("cat.aligned_instructions") * output.elements
        return [gpu.kernel("cat_aligned", pieces, (output,), instructions=issued, chain=2, overlap=SERIAL)]
    steps = ceil(max(piece.elements for piece in pieces) / (2 * gpu.sms * THREADS))
    issued = gpu.cost("cat.indexed_instructions") * output.elements
    return [
        gpu.kernel("cat", pieces, (output,), instructions=issued, latency_s=steps * gpu.cost("cat.step_s"), chain=4)
    ]


def split_copied(operation: Operation, gpu: KernelCostModel) -> Kernels:
    """`split_with_sizes_copy`, `_chunk_cat`: one kernel that copies between a tensor and its pieces, in vectors."""
    ctas = sum(operand.bytes for operand in operation.outputs) / (ALIGNED_THREADS * VECTOR_BYTES)
    return [gpu.kernel(operation.name.strip("_"), operation.inputs, operation.outputs, ctas=ctas, chain=2)]


def _filled(pieces: list[Operand], output: Operand, axis: int, gpu: KernelCostModel) -> float:
    """What HBM moves for sectors that no piece fills alone: pieces come one after the other (`getCatGridContig`) [B].

    Where L2 does not keep all of the output, such a sector is read for each piece, and written whole.
    """
    if output.bytes <= gpu.cache.dirty_bytes:
        return 0.0
    sector, moved, begin = gpu.device.sector_bytes, 0, 0
    for piece in pieces:
        run = prod(piece.shape[axis:]) * piece.item_bytes
        first, last = begin // sector, (begin + run - 1) // sector
        whole = max((begin + run) // sector - -(-begin // sector), 0)
        parts = last - first + 1 - whole
        moved += piece.bytes // run * (2 * parts * sector - (run - whole * sector))
        begin += run
    return float(moved)


def _along_an_axis(operation: Operation) -> tuple[list[Operand], Operand, int]:
    """Pieces that hold something, and the output, in as many dimensions, and the axis along which they are joined.

    `stack` joins along the dimension that it splits afterwards; behind the last one it makes one of size 1.
    """
    output, pieces = operation.outputs[0], [operand for operand in operation.inputs if operand.elements]
    axis = int(operation.arguments.get("dim", 0)) % max(len(output.shape), 1)
    if "stack" not in operation.name:
        return pieces, output, axis
    if axis == len(output.shape) - 1:
        widened = [replace(piece, shape=(*piece.shape, 1), strides=(*piece.strides, 1)) for piece in pieces]
        return widened, output, axis
    shape = (*output.shape[:axis], output.shape[axis] * output.shape[axis + 1], *output.shape[axis + 2 :])
    joined = replace(output, shape=shape, strides=(*output.strides[:axis], *output.strides[axis + 1 :]))
    return pieces, joined, axis


def _copies(pieces: list[Operand], output: Operand, axis: int, gpu: KernelCostModel) -> Kernels:
    kernels, begin = [], output.offset_bytes
    for piece in pieces:
        kernels.append(copied(piece, replace(output, shape=piece.shape, offset_bytes=begin), gpu))
        begin += piece.shape[axis] * output.strides[axis] * output.item_bytes
    return kernels


def _order(operand: Operand) -> tuple[int, ...]:
    """Its dimensions, those of large strides first."""
    return tuple(sorted(range(len(operand.shape)), key=lambda axis: (-operand.strides[axis], axis)))


def pixel_shuffle(operation: Operation, gpu: KernelCostModel) -> Kernels:
    """The copy that reorders channels and pixels."""
    source, output = operation.inputs[0], operation.outputs[0]
    in_order(source, output)
    issued = gpu.cost("elementwise.shuffle_instructions") * output.elements
    return [gpu.kernel("elementwise", (source,), (output,), instructions=issued, chain=8, overlap=SERIAL)]


def rot90(operation: Operation, gpu: KernelCostModel) -> Kernels:
    """`rot90`: a flip, of which a quarter of a turn has another view; of whole turns a copy."""
    if int(operation.arguments.get("k", 1)) % 4 == 0:
        return [copied(operation.inputs[0], operation.outputs[0], gpu)]
    return repeat_flip_roll(operation, gpu)
