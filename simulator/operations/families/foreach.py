"""Operations on lists of tensors: `_foreach_*` and the fused optimizers, in chunks of `multi_tensor_apply`.

A launch takes up to 320 chunks of 65,536 elements, of so many tensors as its arguments hold; a CTA takes a chunk.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil

from ..cost_model import SERIAL, KernelCostModel
from ..operation import Operand, Operation
from ..priced import Kernels
from .elementwise import copied

CHUNK = 1 << 16
MOST_CHUNKS = 320
MOST_TENSORS = {1: 110, 2: 64, 3: 48, 4: 36, 5: 30}
"""Lists that a kernel walks together -> most tensors of each (ATen/native/cuda/MultiTensorApply.cuh)."""
OPTIMIZERS = {"_fused_adam_": 5, "_fused_adamw_": 5, "_fused_sgd_": 3, "_fused_adagrad_": 4}
"""Fused optimizers -> lists of tensors: parameters, gradients, states, steps."""
NORMS = ("_foreach_norm", "_foreach_max")


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Elements of one tensor that a launch takes."""

    tensor: int
    first: int
    elements: int


def foreach(operation: Operation, gpu: KernelCostModel) -> Kernels:
    """The kernels of an operation on lists of tensors of equal shapes."""
    made = operation.outputs or operation.inputs
    count = _list_length(operation)
    lists = [operation.inputs[start : start + count] for start in range(0, len(operation.inputs), count)]
    lists = [tensors for tensors in lists if len(tensors) == count and any(tensor.shape for tensor in tensors)]
    lists = lists or [operation.inputs[:count]]
    if operation.name == "_foreach_copy_":
        return _copies(lists[0], lists[-1], gpu)
    fused = operation.name in OPTIMIZERS
    in_place = operation.name.endswith("_")
    norm = operation.name in NORMS
    written = [lists[0], *lists[2:]] if fused else [lists[0]] if in_place else [] if norm else [list(made[:count])]
    depth = min(len(lists) + (0 if in_place or norm else 1), 5)
    kernels = [gpu.kernel("fill", (), ())] if norm else []
    kernels += _walked(
        lists, written, depth, gpu, instructions=gpu.cost("foreach.optimizer_instructions") if fused else 0.0
    )
    if norm:
        kernels.append(gpu.kernel("lpnorm_cleanup", (), made[:count], chain=4))
    return kernels


def _copies(targets: Sequence[Operand], sources: Sequence[Operand], gpu: KernelCostModel) -> Kernels:
    """Copies of a list: together where all sources have one dtype, and layouts are equal; else one after another.

    Source: foreach_tensor_copy_list_kernel_cuda_ of ATen/native/cuda/ForeachBinaryOpList.cu.
    """
    pairs = list(zip(targets, sources, strict=True))
    alike = all(target.shape == source.shape and target.strides == source.strides for target, source in pairs)
    if alike and len({source.dtype for source in sources}) == len({target.dtype for target in targets}) == 1:
        return _walked([sources], [targets], 2, gpu)
    return [copied(source, target, gpu) for target, source in pairs]


def _walked(
    lists: Sequence[Sequence[Operand]],
    written: Sequence[Sequence[Operand]],
    depth: int,
    gpu: KernelCostModel,
    instructions: float = 0.0,
) -> Kernels:
    """The launches that walk lists. Args: lists: that are read; depth: of all lists; instructions: of an element."""
    return [
        gpu.kernel(
            "multi_tensor_apply",
            [_view(tensors[piece.tensor], piece) for tensors in lists for piece in pieces],
            [_view(tensors[piece.tensor], piece) for tensors in written for piece in pieces],
            instructions=instructions * sum(piece.elements for piece in pieces),
            chain=gpu.cost("foreach.chunk_loads") * min(1.0, max(piece.elements for piece in pieces) / CHUNK),
            overlap=SERIAL,
        )
        for pieces in launches(lists[0], depth)
    ]


def launches(tensors: Sequence[Operand], depth: int) -> list[list[Piece]]:
    """Pieces of each launch that walks a list of tensors, with `depth` lists beside each other."""
    made: list[list[Piece]] = [[]]
    chunks, seen = 0, 0
    for number, tensor in enumerate(tensors):
        seen += 1
        first, left = 0, ceil(tensor.elements / CHUNK)
        while left:
            taken = min(left, MOST_CHUNKS - chunks)
            elements = min(taken * CHUNK, tensor.elements - first)
            made[-1].append(Piece(tensor=number, first=first, elements=elements))
            first, left, chunks = first + elements, left - taken, chunks + taken
            if chunks == MOST_CHUNKS or (not left and seen == MOST_TENSORS[depth]):
                made.append([])
                chunks, seen = 0, 1 if left else 0
    return [pieces for pieces in made if pieces]


def _list_length(operation: Operation) -> int:
    """How many tensors each list has."""
    outputs, inputs = operation.outputs, operation.inputs
    if operation.name in OPTIMIZERS:
        lists = OPTIMIZERS[operation.name] + bool(operation.arguments.get("amsgrad"))
        return max(len(inputs) // lists, 1)
    return min(len(outputs) or len(inputs), len(inputs))


def _view(operand: Operand, piece: Piece) -> Operand:
    offset = operand.offset_bytes + piece.first * operand.item_bytes
    return replace(operand, shape=(piece.elements,), strides=(1,), offset_bytes=offset)
