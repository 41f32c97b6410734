"""Attention by torch's back ends: cuDNN, FlashAttention-2, CUTLASS ("efficient"); forward, backward, one query.

Each reaches a fraction of the tensor cores' peak, by back end and head dim; a query tile costs some keys more than it
has, a tile on the diagonal of a causal mask more of them. Small grids fill their SMs in whole waves. One query a
sequence is bound by the bytes of K and V.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from math import ceil, prod
from typing import Literal

from ...cost_model import KernelCostModel, memset, scratch
from ...operation import Operand, Operation
from ...priced import Kernels
from ..elementwise import copied

HALF = ("bfloat16", "float16")
SPLIT_PRODUCTS = 3
"""Products of TF32 that CUTLASS makes of one of float32 (`OpMultiplyAddFastF32`, `DefaultGemmType` in
mem_eff_attention/gemm_kernel_utils.h): high by high, high by low, low by high parts."""
SINGLE_TILE = 64
"""Queries and keys of a tile of float32. Source: names of the same kernels (`f32_aligned_64x64`)."""
Way = Literal["forward", "backward"]
Extra = tuple[bool, bool]
"""Whether a mask is added to the scores, and whether dropout is drawn for them."""
TILE = 128
"""Query rows of a CTA."""
KEYS = 64
"""Keys of a step."""
HEAD_DIMS: Mapping[str, int] = {"cudnn": 64, "flash": 32, "efficient": 8}
"""Head dims are padded to a multiple of these. Source: names of cuDNN's kernels (72 runs as 128), the instances of
FlashAttention-2's; CUTLASS's are taken to pad none."""
SPLIT_BELOW = 0.8
"""Of two CTAs an SM: with fewer, FlashAttention-2 splits keys (`num_splits_heuristic`), and combines what it gets."""
WHOLE_WAVES = 3
"""Waves from which on it does not count that the last one is not full."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attention:
    """Shapes: `heads` counts batch times query heads; `key_heads` the same of K and V."""

    heads: int
    key_heads: int
    queries: int
    keys: int
    head_dim: int
    causal: bool
    backend: str
    dtype: str
    extra: Extra = (False, False)

    @property
    def size(self) -> int:
        """Head dims that share their costs: up to it, or from it on."""
        return 128 if self.head_dim > 64 else 64

    @property
    def flop(self) -> float:
        """Of both products, of head dims as the kernel pads them; half of it under a causal mask."""
        multiple = HEAD_DIMS[self.backend]
        padded = ceil(self.head_dim / multiple) * multiple
        return 4.0 * self.heads * self.queries * self.keys * padded / (2.0 if self.causal else 1.0)


def attention(operation: Operation, gpu: KernelCostModel) -> Kernels:
    """Kernels of `_scaled_dot_product_*_attention`."""
    problem = problem_of(operation)
    kernels = [memset(gpu)] if problem.backend == "cudnn" and problem.queries > 1 else []
    if problem.queries == 1:
        return [*kernels, *_decode(problem, operation, gpu)]
    busy = products_s(problem, "forward", problem.flop, gpu)
    if problem.backend == "cudnn" and problem.extra[1]:
        kernels.insert(0, gpu.kernel("unpack_cudnn", (), ()))
    name = f"{problem.backend}_attention_forward"
    note = _note(problem)
    reads, writes = operation.inputs[:4], operation.outputs[:2]
    return [*kernels, gpu.kernel(name, reads, writes, source="attention", tensor_s=busy, note=note)]


def products_s(problem: Attention, way: Way, flop: float, gpu: KernelCostModel) -> float:
    """Time of the tensor cores, with what a mask and dropout add [s]."""
    time_s = _plain_s(problem, way, flop, gpu)
    extra = "_".join(name for name, is_there in zip(("mask", "dropout"), problem.extra, strict=True) if is_there)
    return time_s * gpu.cost(f"attention.{extra}_{problem.size}_{way}_factor") if extra else time_s


def _plain_s(problem: Attention, way: Way, flop: float, gpu: KernelCostModel) -> float:
    """The same without these: what query tiles cost beside their keys, in whole waves where they are few [s]."""
    device = gpu.device
    if problem.dtype == "float32" and problem.backend == "efficient" and device.mma_tf32_flop_per_cycle:
        return _single_s(problem, way, flop, gpu)
    fraction = gpu.cost(f"attention.{problem.backend}_{problem.size}_{way}_fraction")
    if problem.dtype not in HALF:
        peak = 2.0 * device.fma_per_cycle * device.boost_clock_hz * gpu.sms
    else:
        fastest = device.fastest_flop_per_cycle("bf16")
        peak = (fastest if problem.backend == "cudnn" else device.mma_fp16_flop_per_cycle) * device.tensor_clock_hz
        peak *= gpu.sms
    tiles = ceil(problem.queries / TILE)
    walked = problem.keys / 2.0 if problem.causal else float(problem.keys)
    extra = (
        gpu.cost("attention.diagonal_keys") + TILE / 2
        if problem.causal
        else gpu.cost("attention.tile_keys") + -problem.keys % KEYS
    )
    padded = tiles * TILE / problem.queries * (walked + extra) / walked
    waves = problem.heads * tiles / gpu.sms
    idle = 1.0
    if waves < 1:
        idle = problem.keys / walked / waves
    elif waves < WHOLE_WAVES and not problem.causal:
        idle = ceil(waves) / waves
    return flop / (peak * fraction) * padded * idle


def _single_s(problem: Attention, way: Way, flop: float, gpu: KernelCostModel) -> float:
    """The same of float32: whole tiles, those above the diagonal of a causal mask left out, in three products [s]."""
    down, across = ceil(problem.queries / SINGLE_TILE), ceil(problem.keys / SINGLE_TILE)
    walked = sum(min(row + 1, across) for row in range(down)) if problem.causal else down * across
    whole = SINGLE_TILE**2 * walked / (problem.queries * problem.keys / (2.0 if problem.causal else 1.0))
    fraction = gpu.cost(f"attention.float32_{problem.size}_{way}_fraction")
    rate = gpu.device.mma_tf32_flop_per_cycle * gpu.device.tensor_clock_hz / SPLIT_PRODUCTS
    idle = max(gpu.sms / (problem.heads * down), 1.0)
    return flop * whole / (rate * fraction * gpu.sms) * idle


def attention_backward(operation: Operation, gpu: KernelCostModel) -> Kernels:
    """Kernels of their gradients: rows' sums of dO O, the five products, dQ in the operands' type."""
    gradient, query, key, value, result = operation.inputs[:5]
    problem = problem_of(operation)
    if problem.backend == "efficient":
        result = next((operand for operand in operation.inputs[4:] if operand.shape == query.shape), result)
    outputs = operation.outputs[:3]
    sums = scratch(query, 0, dtype="float32")
    busy = products_s(problem, "backward", 2.5 * problem.flop, gpu)
    name = f"{problem.backend}_attention_backward"
    main = partial(gpu.kernel, name, source="attention", tensor_s=busy, note=_note(problem))
    if problem.backend == "efficient":
        filled = gpu.kernel("fill", (), (sums,))
        return [filled, main((gradient, query, key, value, result), outputs)]
    kernels: Kernels = []
    if problem.backend == "cudnn":
        kernels.append(memset(gpu))
    else:
        for number, operand in enumerate((gradient, result)):
            if not _tokens_first(operand):
                _, heads, tokens, dim = operand.shape
                strides = (heads * tokens * dim, dim, heads * dim, 1)
                kernels.append(copied(operand, scratch(operand, 1 + number, strides=strides), gpu))
    kernels.append(gpu.kernel("dot_do_o", (gradient, result), (sums,)))
    grouped = problem.heads != problem.key_heads
    shape = (*query.shape[:-2], problem.keys, problem.head_dim)
    wide = tuple(scratch(query, number, shape=shape) for number in (3, 4))
    made = wide if grouped else outputs[1:3]
    kernels.append(main((gradient, query, key, value), (sums, *made)))
    kernels.append(gpu.kernel("convert_dq", (sums,), outputs[:1], chain=4))
    if grouped:
        kernels += [
            gpu.kernel("reduce_heads", (source,), (to,), chain=4) for source, to in zip(wide, outputs[1:], strict=False)
        ]
    return kernels


def _decode(problem: Attention, operation: Operation, gpu: KernelCostModel) -> Kernels:
    reads, outputs = operation.inputs[:3], operation.outputs[:1]
    name = f"{problem.backend}_attention_decode"
    kernels = [
        gpu.kernel(
            name, reads, outputs, source="attention", chain=16, hbm_fraction=gpu.cost("attention.decode_fraction")
        )
    ]
    if problem.backend == "flash" and problem.key_heads < SPLIT_BELOW * 2 * gpu.sms:
        kernels.append(gpu.kernel("attention_combine", (), outputs, source="attention", chain=8))
    if problem.backend == "cudnn" and problem.key_heads <= gpu.sms // 2:
        kernels.append(gpu.kernel("lean_reduction", (), outputs, source="attention", chain=8))
    return kernels


def problem_of(operation: Operation) -> Attention:
    """What an operation of attention, or its gradient, is asked for."""
    first = 1 if "backward" in operation.name else 0
    query, key, value, *others = operation.inputs[first:]
    if first:
        # Past V stand the mask, what attention gave, and sums of rows.
        given = (*query.shape[:-1], value.shape[-1])
        del others[[other.shape for other in others].index(given)]
    is_masked = key.shape[-2] > 1 and any(other.shape[-2:] == (query.shape[-2], key.shape[-2]) for other in others)
    backend = next((name for name in ("cudnn", "flash", "efficient") if name in operation.name), "flash")
    return Attention(
        heads=prod(query.shape[:-2]),
        key_heads=prod(key.shape[:-2]),
        queries=query.shape[-2],
        keys=key.shape[-2],
        head_dim=query.shape[-1],
        causal=bool(operation.arguments.get("is_causal", False)),
        backend=backend,
        dtype=query.dtype,
        extra=(is_masked, bool(operation.arguments.get("dropout_p", 0.0))),
    )


def _tokens_first(operand: Operand) -> bool:
    """Whether [batch, heads, tokens, dim] lies in memory as [batch, tokens, heads, dim]."""
    return operand.strides[-3] <= operand.strides[-2] and operand.strides[-1] == 1


def _note(problem: Attention) -> str:
    if problem.dtype == "float32" and problem.backend == "efficient":
        return "attention in float32 was read off one shape"
    if problem.dtype not in HALF:
        return f"attention in {problem.dtype} was not measured"
    if any(problem.extra) and problem.backend != "cudnn":
        return "what a mask and dropout cost was read off cuDNN's kernels"
    return ""


def split_heads(operation: Operation, gpu: KernelCostModel) -> Kernels:
    """`_transform_bias_rescale_qkv`: Q, K and V of each head from rows of all three, with their bias."""
    elements = operation.inputs[0].elements
    reads, writes = operation.inputs, operation.outputs
    return [
        gpu.kernel(
            "transform_bias_rescale_qkv",
            reads,
            writes,
            instructions=gpu.cost("attention.split_heads_instructions") * elements,
            chain=2,
        )
    ]
