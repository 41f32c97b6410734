"""Advice on operations that could be one kernel, or another: attention, norms, copies."""

from collections.abc import Iterator, Sequence

from ...prediction.what_helps import Advice
from ..operation import Operation
from .hint import concerning, listed, places_text, time_at

SOFTMAX = frozenset({"_softmax", "_safe_softmax"})
NORM_PARTS = frozenset({"_to_copy", "pow", "square", "mul", "mean", "var", "var_mean", "add", "rsqrt", "sub", "div"})
COPIES = frozenset({"clone", "copy_", "copy", "contiguous"})
GROWN = 0.75
"""Share of a joined tensor that one piece has at least, where the others are added to it."""
FAST_HEAD_DIM, HEAD_DIM_STEP = 128, 32
"""Attention kernels are fastest up to that head dim, and are written for multiples of the step."""


def written_scores(operations: Sequence[Operation], costs_s: Sequence[float]) -> Advice | None:
    """A softmax between two batched products: attention that has its scores go to memory and come back."""
    touched: list[int] = []
    wheres: list[Operation] = []
    for place, operation in enumerate(operations):
        if operation.kind != "torch" or operation.name not in SOFTMAX:
            continue
        before = next((at for at in range(place - 1, -1, -1) if _is_batched(operations[at])), None)
        after = next((at for at in range(place + 1, len(operations)) if _is_batched(operations[at])), None)
        if before is not None and after is not None:
            touched += range(before, after + 1)
            wheres.append(operation)
    if not touched:
        return None
    return Advice(
        cause="attention",
        text=f"scores of attention are written to memory and read again{places_text(wheres)}",
        cure="scaled_dot_product_attention with a backend that keeps them on the SM (flash, cuDNN, efficient)",
        time_s=time_at(set(touched), costs_s),
    )


def _is_batched(operation: Operation) -> bool:
    return operation.name in ("bmm", "baddbmm")


def unfused_norms(operations: Sequence[Operation], costs_s: Sequence[float]) -> Advice | None:
    """A reciprocal root with the operations around it that make a norm, each a kernel of its own."""
    touched: set[int] = set()
    wheres: list[Operation] = []
    for place, operation in enumerate(operations):
        if operation.kind != "torch" or operation.name != "rsqrt":
            continue
        first, last = place, place
        while first > 0 and _in_norm(operations[first - 1], operation):
            first -= 1
        while last + 1 < len(operations) and _in_norm(operations[last + 1], operation):
            last += 1
        if last - first >= 2:
            touched |= set(range(first, last + 1))
            wheres.append(operation)
    if not touched:
        return None
    return Advice(
        cause="norms",
        text=f"{len(wheres)} norms of {len(touched) // len(wheres)} kernels each{places_text(wheres)}",
        cure="torch.compile, or F.rms_norm and F.layer_norm: one kernel that reads and writes once",
        time_s=time_at(touched, costs_s),
    )


def _in_norm(operation: Operation, root: Operation) -> bool:
    return operation.kind == "torch" and operation.name in NORM_PARTS and operation.module == root.module


def copies(operations: Sequence[Operation], costs_s: Sequence[float]) -> Advice | None:
    """Copies of one type into another order of dimensions."""
    places = [
        place
        for place, operation in enumerate(operations)
        if operation.kind == "torch"
        and operation.name in COPIES
        and operation.inputs
        and operation.outputs
        and operation.inputs[-1].dtype == operation.outputs[0].dtype
        and operation.inputs[-1].strides != operation.outputs[0].strides
    ]
    return concerning(
        *("copies", places, operations, costs_s),
        text="copies into another layout",
        cure="keep tensors in the layout that the next operation reads, or let torch.compile fuse them",
    )


def grown(operations: Sequence[Operation], costs_s: Sequence[float]) -> Advice | None:
    """Tensors that are copied whole, so that a little can be added to them: caches of decoding."""
    places = [
        place
        for place, operation in enumerate(operations)
        if operation.kind == "torch"
        and operation.name == "cat"
        and max(operand.elements for operand in operation.inputs) >= GROWN * operation.outputs[0].elements
    ]
    return concerning(
        *("grown", places, operations, costs_s),
        text="tensors (a cache?) are copied whole for a little that is added to them",
        cure="a tensor of the full size, into which the new part is written (a static or paged cache)",
    )


def slow_attention(operations: Sequence[Operation], costs_s: Sequence[float]) -> Iterator[Advice | None]:
    """Attention off the fast path, by a mask that is a tensor, or else by head dims that the kernels are not for."""
    places: dict[bool, list[int]] = {True: [], False: []}
    for place, operation in enumerate(operations):
        if operation.kind == "torch" and "scaled_dot_product" in operation.name and operation.inputs:
            masked = len(operation.inputs) > 3 and "backward" not in operation.name
            if masked or _is_odd(operation.inputs[0].shape[-1]):
                places[masked].append(place)
    yield concerning(
        *("mask", places[True], operations, costs_s),
        text="attention with a mask that is a tensor: all of it is computed, and flash does not take it",
        cure="is_causal=True, no mask where nothing is padded, or flex_attention with a block mask",
    )
    dims = sorted({operations[place].inputs[0].shape[-1] for place in places[False]})
    yield concerning(
        *("head dim", places[False], operations, costs_s),
        text=f"attention of head dim {listed(dims)}: off the fast path",
        cure=f"head dims of 64 or {FAST_HEAD_DIM}",
    )


def _is_odd(head_dim: int) -> bool:
    return head_dim > FAST_HEAD_DIM or head_dim % HEAD_DIM_STEP != 0
