"""V of fp8 in the order in which tensor cores take it: transposed, keys of every 16 in that of a thread's weights."""

import torch
import triton
import triton.language as tl

BLOCK = 128


@triton.jit
def values_kernel(v_ptr, out_ptr, seqlen_k, pitch, dim: tl.constexpr, block: tl.constexpr):
    """A tile of keys of a slab. Shapes: V (slabs, N, D), out (slabs, D, pitch); past the last key 0."""
    slab, places = tl.program_id(1).to(tl.int64), tl.arange(0, block)
    # Place 4t + 2h + e of every 16 holds key 8h + 2t + e.
    keys = tl.program_id(0) * block + places // 16 * 16 + places % 4 // 2 * 8 + places % 16 // 4 * 2 + places % 2
    dims = tl.arange(0, dim)
    inside = (keys < seqlen_k)[:, None]
    v = tl.load(v_ptr + slab * seqlen_k * dim + keys[:, None] * dim + dims[None, :], mask=inside, other=0)
    columns = tl.program_id(0) * block + places
    tl.store(out_ptr + slab * dim * pitch + dims[:, None] * pitch + columns[None, :], tl.trans(v))


def transposed(v: torch.Tensor) -> torch.Tensor:
    """V (B, G, N, D) as (B, G, D, N), N up to a multiple of 128."""
    batch, heads, keys, dim = v.shape
    pitch = -(-keys // BLOCK) * BLOCK
    out = torch.empty((batch, heads, dim, pitch), dtype=v.dtype, device=v.device)
    turn(v, out)
    return out


def turn(v: torch.Tensor, out: torch.Tensor) -> None:
    """Fill a transposed V. Args: v: (B, G, N, D); out: (B, G, D, pitch)."""
    batch, heads, keys, dim = v.shape
    pitch = out.shape[-1]
    values_kernel[pitch // BLOCK, batch * heads](
        v.view(torch.uint8), out.view(torch.uint8), keys, pitch, dim, BLOCK, num_warps=4
    )
