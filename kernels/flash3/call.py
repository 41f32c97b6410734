"""From torch tensors to the kernel: what it takes, its descriptors and lists, and the launch."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import e, log2, sqrt
from types import MappingProxyType
from typing import Any

import torch
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

from ...simulator.problems.attention import AttentionProblem
from .kernel import flash3_kernel
from .options import GROUP_ROWS, REGISTERS, Options, check_fits, shared_of, usual
from .tiles import L2_BYTES, key_tiles, shares, table
from .values import transposed

ELEMENTS: Mapping[torch.dtype, Any] = MappingProxyType(
    {torch.float16: gl.float16, torch.bfloat16: gl.bfloat16, torch.float8_e4m3fn: gl.float8e4nv}
)
SCALE_ROWS = 128
"""Rows of Q, K or V that share a scale."""


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
    """A tensor that is copied box by box."""
    strides = [1] * len(shape)
    for axis in reversed(range(len(shape) - 1)):
        strides[axis] = strides[axis + 1] * shape[axis + 1]
    layout = gl.NVMMASharedLayout.get_default_for(list(box), ELEMENTS[tensor.dtype])
    return TensorDescriptor(tensor, list(shape), strides, list(box), layout)


def scale_tensor(name: str, scale: float | torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
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
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scales: tuple[float | torch.Tensor, ...]
) -> tuple[torch.Tensor, ...]:
    """Scales of blocks of fp8 tensors; none where each is a number for all, or the dtype has none.

    Raises:
        ValueError: they do not fit, or there are some for another dtype; one line.
    """
    if q.dtype == torch.float8_e4m3fn:
        if not any(isinstance(scale, torch.Tensor) for scale in scales):
            return ()
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
    scales: tuple[float | torch.Tensor, ...] = (1.0, 1.0, 1.0),
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
    block_scales = scale_tensors(q, k, v, scales)
    q_scale, k_scale, out_scale = (1.0, 1.0, 1.0) if block_scales else map(float, scales)
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
    scale, inner = q_scale * k_scale * log2(e) / sqrt(dim), 0.0
    if problem.softcap:
        scale, inner = problem.softcap * log2(e), 2.0 * scale / problem.softcap
    # Past a group's first key tile a mask is needed where its diagonal crosses the edge of a key tile.
    tails = causal and ((seqlen_k - seqlen_q) % options.block_n != 0 or options.block_n % tile_queries != 0)
    descriptors = descriptors_of(q, k, v, o, pack, options.block_n)
    arguments = (
        *descriptors, o, lse, *(block_scales or (lse, lse, lse)), tiles,
        tiles.shape[1], seqlen_q, seqlen_k, len(costs), heads // kv_heads // pack, problem.window, scale, inner,
        out_scale, options.groups, pack, options.block_n, out_dim, 2 if dim & (dim - 1) else 1, kept.q_slots,
        options.stages, REGISTERS[options.groups], causal, problem.window > 0, fp8, bool(block_scales),
        problem.softcap > 0, causal or seqlen_k % options.block_n != 0, tails, options.overlap, options.pingpong,
        kept.direct,
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
