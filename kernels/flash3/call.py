"""From torch tensors to the kernel: what it takes, its descriptors and lists, and the launch."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import e, log2, sqrt
from types import MappingProxyType
from typing import Any

import torch
import triton
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

from ...simulator.problems.attention import AttentionProblem
from ...simulator.schedules.registry import DEFAULT_SCHEDULE
from ..launch.launch import problem_of
from .kernel import flash3_kernel
from .options import GROUP_ROWS, REGISTERS, Options, check_fits, shared_of, usual
from .tiles import L2_BYTES, key_tiles, shares, table
from .values import transposed

DIMS = ((64, 64), (128, 128), (256, 256), (192, 128))
"""Head dimensions of Q and K, and of V."""
ELEMENTS: Mapping[torch.dtype, Any] = MappingProxyType(
    {torch.float16: gl.float16, torch.bfloat16: gl.bfloat16, torch.float8_e4m3fn: gl.float8e4nv}
)
CAPABILITY = (9, 0)
TRITON = "3.6"
"""The minor version of Triton whose Gluon the kernel is written in."""
SCALE_ROWS = 128
"""Rows of Q, K or V that share a scale."""
Scale = float | torch.Tensor


def flash3(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    window: int = 0,
    softcap: float = 0.0,
    scales: tuple[Scale, Scale, Scale] = (1.0, 1.0, 1.0),
    options: Options | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention by FlashAttention-3's division of work, on GPUs of compute capability 9.0.

    Args:
        q: (B, H, M, D); k: (B, G, N, D); v: (B, G, N, D_v): contiguous, of one dtype, fp16, bf16 or fp8 (e4m3); D and
            D_v are 64, 128 or 256, or 192 and 128.
        causal: whether the mask is causal, aligned to the last key; window: keys that a query sees at most, 0 for all.
        softcap: scores are cap * tanh(score / cap); 0: as they are.
        scales: what the numbers of q, k and v in fp8 are to be multiplied by, above 0: a number for all, or an fp32
            tensor (B, heads, ceil(length / 128)), a number for every 128 rows of a head.
        options: tiles, buffers and order; those of the fastest kernel measured where None.

    Returns:
        O (B, H, M, D_v) in the dtype of q (bf16 where that is fp8), and LSE (B, H, M) in fp32, natural logarithm; of a
        row that sees no key 0 and -inf.

    Raises:
        ValueError: a GPU, tensors or options that the kernel cannot take; one line.
    """
    problem = problem_of(q, k, v, causal=causal, window=window, head_dim_v=v.shape[-1], softcap=softcap)
    if reason := why_not(q, v):
        raise ValueError(reason)
    sms = torch.cuda.get_device_properties(q.device).multi_processor_count
    with torch.cuda.device(q.device):
        launch = prepare(q, k, v, problem, scales=scales, options=options, sms=sms)
        launch.run()
    return launch.o, launch.lse


def why_not(q: torch.Tensor, v: torch.Tensor) -> str:
    """Why the kernel cannot take tensors of that kind, in one line; empty where it can."""
    instead = f"use {DEFAULT_SCHEDULE}"
    if q.device.type != "cuda":
        return f"tensors are on {q.device}: flash3 needs a CUDA GPU of compute capability 9.0: {instead}"
    capability = torch.cuda.get_device_capability(q.device)
    if capability != CAPABILITY:
        name = torch.cuda.get_device_name(q.device)
        return f"{name} has compute capability {capability[0]}.{capability[1]}: flash3 needs 9.0 (Hopper): {instead}"
    if not triton.__version__.startswith(f"{TRITON}."):
        return f"triton {triton.__version__} is installed: flash3 is written in the Gluon of {TRITON}: {instead}"
    return refused(q.dtype, q.shape[-1], v.shape[-1])


def refused(dtype: torch.dtype, head_dim: int, out_dim: int) -> str:
    """Why the kernel has no such element type or head dimension; empty where it has."""
    if dtype not in ELEMENTS:
        known = ", ".join(str(known).removeprefix("torch.") for known in ELEMENTS)
        name = str(dtype).removeprefix("torch.")
        return f"q has dtype {name}: flash3 has {known}: use {DEFAULT_SCHEDULE}"
    if (head_dim, out_dim) not in DIMS:
        known = ", ".join(f"{dim} and {out}" for dim, out in DIMS)
        return f"head_dim is {head_dim}, of v {out_dim}: flash3 has {known}: use {DEFAULT_SCHEDULE}"
    return ""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A launch: its grid and arguments, and its outputs."""

    grid: tuple[int]
    arguments: tuple[Any, ...]
    o: torch.Tensor
    lse: torch.Tensor

    def run(self) -> None:
        """Launch the kernel."""
        flash3_kernel[self.grid](*self.arguments, num_warps=4)


def pack_of(heads_share: int, seqlen_q: int, block_m: int, asked: int = 0) -> int:
    """Query heads of a KV head that share a tile: as many as save tiles, as few as do.

    Raises:
        ValueError: as many as asked for do not divide the heads of a KV head.
    """
    packs = [2**power for power in range(7) if heads_share % 2**power == 0]
    if asked and asked not in packs:
        raise ValueError(
            f"pack = {asked}: must be one of {', '.join(map(str, packs))} for {heads_share} heads a KV head"
        )
    return asked or min(packs, key=lambda pack: (heads_share // pack * -(-seqlen_q * pack // block_m), pack))


@lru_cache(maxsize=256)
def lists_on(
    device: torch.device, costs: tuple[int, ...], slabs: int, slab_bytes: int, workers: int, balanced: bool
) -> torch.Tensor:
    """The lists of tiles (`tiles.table`) on a device. Args: slab_bytes: K and V of a slab; the rest as in `shares`."""
    rows = table(shares(list(costs), slabs, max(1, L2_BYTES // slab_bytes), workers, balanced))
    return torch.tensor(rows, dtype=torch.int32).to(device)


def descriptor(tensor: torch.Tensor, shape: tuple[int, ...], box: tuple[int, ...]) -> TensorDescriptor:
    """A tensor of four dimensions that is copied box by box."""
    strides = [1] * 4
    for axis in (2, 1, 0):
        strides[axis] = strides[axis + 1] * shape[axis + 1]
    layout = gl.NVMMASharedLayout.get_default_for(list(box), ELEMENTS[tensor.dtype])
    return TensorDescriptor(tensor, list(shape), strides, list(box), layout)


def scale_tensor(name: str, scale: Scale, tensor: torch.Tensor) -> torch.Tensor:
    """Scales of a tensor's rows, one for every 128 of a head.

    Raises:
        ValueError: a tensor of another shape or dtype; one line.
    """
    shape = (*tensor.shape[:2], -(-tensor.shape[2] // SCALE_ROWS))
    if not isinstance(scale, torch.Tensor):
        return torch.full(shape, float(scale), device=tensor.device)
    if scale.numel() == 1:
        scale = scale.reshape(1, 1, 1).expand(shape)
    if scale.shape != shape or scale.dtype != torch.float32 or scale.device != tensor.device:
        raise ValueError(
            f"scale of {name} is {tuple(scale.shape)} {scale.dtype} on {scale.device}: must be {shape} torch.float32"
            f" on {tensor.device}, or a number"
        )
    return scale.contiguous()


def scale_tensors(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scales: tuple[Scale, Scale, Scale]
) -> tuple[torch.Tensor, ...]:
    """Scales of fp8 tensors; none of others.

    Raises:
        ValueError: they do not fit, or there are some for another dtype; one line.
    """
    if q.dtype == torch.float8_e4m3fn:
        return tuple(scale_tensor(name, scale, x) for name, scale, x in zip("qkv", scales, (q, k, v), strict=True))
    if any(isinstance(scale, torch.Tensor) or scale != 1.0 for scale in scales):
        raise ValueError(f"scales are given for {q.dtype}: only fp8 has scales: multiply by them")
    return ()


def prepare(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    problem: AttentionProblem,
    *,
    scales: tuple[Scale, Scale, Scale] = (1.0, 1.0, 1.0),
    options: Options | None = None,
    sms: int,
) -> Prepared:
    """The launch of a problem that the kernel has. Args: sms: of the GPU; the rest as in `flash3`.

    Raises:
        ValueError: options that do not fit, or scales; one line.
    """
    dim, out_dim, causal = q.shape[-1], v.shape[-1], problem.causal
    options = options or usual(dim, q.element_size(), causal)
    check_fits(options, dim, out_dim, q.element_size())
    batch, heads, seqlen_q, _ = q.shape
    kv_heads, seqlen_k = k.shape[1:3]
    pack = pack_of(heads // kv_heads, seqlen_q, options.block_m, options.pack)
    queries, slabs = GROUP_ROWS // pack, batch * heads // pack
    tile_queries = queries * options.groups
    fp8, kept = q.dtype == torch.float8_e4m3fn, shared_of(dim)
    given_scales = scale_tensors(q, k, v, scales)
    o = torch.empty((*q.shape[:3], out_dim), dtype=torch.bfloat16 if fp8 else q.dtype, device=q.device)
    lse = torch.empty(q.shape[:3], dtype=torch.float32, device=q.device)
    costs = tuple(
        key_tiles(tile, tile_queries, seqlen_q, seqlen_k, options.block_n, causal=causal, window=problem.window)
        for tile in range(-(-seqlen_q // tile_queries))
    )
    tiles = lists_on(
        q.device, costs, slabs, seqlen_k * (dim + out_dim) * q.element_size(),
        min(sms, slabs * len(costs)) if options.persistent else slabs * len(costs), options.balanced,
    )  # fmt: skip
    scale, inner = log2(e) / sqrt(dim), 0.0
    if problem.softcap:
        scale, inner = problem.softcap * log2(e), 2.0 * scale / problem.softcap
    # Past a group's first key tile a mask is needed where its diagonal crosses the edge of a key tile.
    tails = causal and ((seqlen_k - seqlen_q) % options.block_n != 0 or options.block_n % tile_queries != 0)
    descriptors = descriptors_of(q, k, v, o, pack, options.block_n)
    arguments = (
        *descriptors, o, lse, *(given_scales or (lse, lse, lse)), tiles,
        tiles.shape[1], seqlen_q, seqlen_k, len(costs), heads // kv_heads // pack, problem.window, scale, inner,
        options.groups, pack, options.block_n, out_dim, 2 if dim & (dim - 1) else 1, kept.q_slots, options.stages,
        REGISTERS[options.groups], causal, problem.window > 0, fp8, problem.softcap > 0,
        causal or seqlen_k % options.block_n != 0, tails, options.overlap, options.pingpong, kept.direct,
    )  # fmt: skip
    return Prepared((tiles.shape[0],), arguments, o, lse)


def descriptors_of(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, o: torch.Tensor, pack: int, block_n: int
) -> tuple[TensorDescriptor, ...]:
    """Of Q, K, V and O; Q and K have two where D is no power of two: of the largest in it, and of the rest."""
    dim, out_dim, queries = q.shape[-1], v.shape[-1], GROUP_ROWS // pack
    slabs, kv_slabs = q.shape[0] * q.shape[1] // pack, k.shape[0] * k.shape[1]
    wide = 1 << (dim.bit_length() - 1)
    q_desc, q_rest = (
        descriptor(q, (slabs, pack, q.shape[2], dim), (1, pack, queries, width)) for width in (wide, dim - wide or wide)
    )
    k_desc, k_rest = (
        descriptor(k, (kv_slabs, 1, k.shape[2], dim), (1, 1, block_n, width)) for width in (wide, dim - wide or wide)
    )
    if q.dtype == torch.float8_e4m3fn:
        turned = transposed(v)
        v_desc = descriptor(turned, (kv_slabs, 1, out_dim, turned.shape[-1]), (1, 1, out_dim, block_n))
    else:
        v_desc = descriptor(v, (kv_slabs, 1, k.shape[2], out_dim), (1, 1, block_n, out_dim))
    o_desc = descriptor(o, (slabs, pack, q.shape[2], out_dim), (1, pack, queries, out_dim))
    return q_desc, q_rest, k_desc, k_rest, v_desc, o_desc
