"""FlashAttention-2 forward by TMA in Triton: the twin of `simulator/schedules/flash2_tma.py`.

The loops and the arithmetic are those of `flash2`; Q, K and V come as whole tiles through tensor descriptors,
which the host makes once a launch: (slab, row, column), so that tiles are clipped at the edges of a head.

With warp specialisation one loop over all key tiles is divided among warps by the compiler (Triton 3.6, Hopper):
one group loads, two compute, each on half of the tile's rows. What then holds for Q:

- Its tile is halved as well, and with it the block of its descriptor; that of a descriptor made by the host is not.
  So CTAs make their own, of two dimensions: the compiler offsets the first of the load's indices.
- It does so wherever the index stands, even in a mask. So the index is a number that nothing else uses.
"""

import torch
import triton
import triton.language as tl

from ..simulator.device.device import Device
from ..simulator.launch.program import Launch
from ..simulator.schedules.config import Config
from .launch.launch import TritonKernel, check_runnable, launches_for, problem_of, run_all
from .query_tile import finish, key_tiles, online_softmax, place


@triton.jit
def flash2_tma_kernel(
    q, k_desc, v_desc, o_ptr, lse_ptr, seqlen_q, seqlen_k, slabs, items, scale_log2,
    head_dim: tl.constexpr, padded_dim: tl.constexpr, head_group: tl.constexpr,
    block_m: tl.constexpr, block_n: tl.constexpr, cta_order: tl.constexpr, kv_order: tl.constexpr,
    causal: tl.constexpr, whole_m: tl.constexpr, whole_n: tl.constexpr, guarded: tl.constexpr, p_log2: tl.constexpr,
    persistent: tl.constexpr, warp_specialize: tl.constexpr,
):  # fmt: skip
    """All items of a CTA. Shapes: Q, O (slabs, M, D); K, V (slabs / group, N, D); LSE (slabs, M).

    q is a descriptor of Q, or a pointer to it where warps are specialised.
    """
    if persistent:
        for item in tl.range(tl.program_id(0), items, tl.num_programs(0), num_stages=1):
            _item(
                q, k_desc, v_desc, o_ptr, lse_ptr, seqlen_q, seqlen_k, slabs, item, scale_log2,
                head_dim, padded_dim, head_group, block_m, block_n, cta_order, kv_order,
                causal, whole_m, whole_n, guarded, p_log2, warp_specialize,
            )  # fmt: skip
    else:
        _item(
            q, k_desc, v_desc, o_ptr, lse_ptr, seqlen_q, seqlen_k, slabs, tl.program_id(0), scale_log2,
            head_dim, padded_dim, head_group, block_m, block_n, cta_order, kv_order,
            causal, whole_m, whole_n, guarded, p_log2, warp_specialize,
        )  # fmt: skip


@triton.jit
def _item(
    q, k_desc, v_desc, o_ptr, lse_ptr, seqlen_q, seqlen_k, slabs, item, scale_log2,
    head_dim: tl.constexpr, padded_dim: tl.constexpr, head_group: tl.constexpr,
    block_m: tl.constexpr, block_n: tl.constexpr, cta_order: tl.constexpr, kv_order: tl.constexpr,
    causal: tl.constexpr, whole_m: tl.constexpr, whole_n: tl.constexpr, guarded: tl.constexpr, p_log2: tl.constexpr,
    warp_specialize: tl.constexpr,
):  # fmt: skip
    """One query tile of one head: O[tile] and LSE[tile]."""
    slab, q_tile = place(item, seqlen_q, slabs, block_m, cta_order)
    row = q_tile * block_m
    first_row = slab.to(tl.int64) * seqlen_q + row
    if not warp_specialize:
        q_block = q.load([slab, row, 0]).reshape(block_m, padded_dim)
    else:
        shape = [seqlen_q - row, head_dim]
        q_desc = tl.make_tensor_descriptor(q + first_row * head_dim, shape, [head_dim, 1], [block_m, padded_dim])
        # Grids have one dimension, so this is 0; the compiler takes it for a number that nothing else uses.
        q_block = q_desc.load([tl.program_id(1), 0])

    _, _, step, first, unmasked, masked_first, masked = key_tiles(
        row, q_tile, seqlen_q, seqlen_k, block_m, block_n, kv_order, causal, whole_n, 0
    )
    kv_slab = slab // head_group
    last_key = row + tl.arange(0, block_m) + (seqlen_k - seqlen_q)
    masks: tl.constexpr = causal or not whole_n
    acc = tl.zeros((block_m, padded_dim), tl.float32)
    row_sum = tl.zeros((block_m,), tl.float32)
    row_max = tl.full((block_m,), float("-inf"), tl.float32)
    if warp_specialize:
        acc, row_sum, row_max = _stream(
            acc, row_sum, row_max, q_block, k_desc, v_desc, kv_slab, first, step, unmasked + masked, last_key, seqlen_k,
            scale_log2, padded_dim, block_n, causal, masks, guarded, p_log2, True,
        )  # fmt: skip
    else:
        acc, row_sum, row_max = _stream(
            acc, row_sum, row_max, q_block, k_desc, v_desc, kv_slab, first, step, unmasked, last_key, seqlen_k,
            scale_log2, padded_dim, block_n, causal, False, False, p_log2, False,
        )  # fmt: skip
        if masks:
            acc, row_sum, row_max = _stream(
                acc, row_sum, row_max, q_block, k_desc, v_desc, kv_slab, masked_first, step, masked, last_key, seqlen_k,
                scale_log2, padded_dim, block_n, causal, True, guarded, p_log2, False,
            )  # fmt: skip
    finish(
        o_ptr, lse_ptr, acc, row_sum, row_max, first_row, seqlen_q - row,
        head_dim, padded_dim, block_m, whole_m, guarded, p_log2,
    )  # fmt: skip


@triton.jit
def _stream(
    acc, row_sum, row_max, q_block, k_desc, v_desc, kv_slab, first, step, trips, last_key, seqlen_k, scale_log2,
    padded_dim: tl.constexpr, block_n: tl.constexpr, causal: tl.constexpr, masked: tl.constexpr,
    guarded: tl.constexpr, p_log2: tl.constexpr, warp_specialize: tl.constexpr,
):  # fmt: skip
    """Key tiles first, first + step, ...; what lies past the end of a head arrives as zeros."""
    for trip in tl.range(0, trips, warp_specialize=warp_specialize):
        key = (first + step * trip) * block_n
        k_block = k_desc.load([kv_slab, key, 0]).reshape(block_n, padded_dim)
        p, acc, row_sum, row_max = online_softmax(
            tl.dot(q_block, tl.trans(k_block)), acc, row_sum, row_max, key, last_key, seqlen_k, scale_log2,
            block_n, causal, masked, guarded, p_log2, 0,
        )  # fmt: skip
        v_block = v_desc.load([kv_slab, key, 0]).reshape(block_n, padded_dim)
        acc = tl.dot(p.to(v_block.dtype), v_block, acc)
    return acc, row_sum, row_max


def twin(launch: Launch) -> TritonKernel:
    """The kernel of a flash2_tma launch, its arguments, and the tiles that it copies."""
    check_runnable(launch)
    arguments = launch.kernel_arguments
    k_tile = (int(arguments["block_n"]), int(arguments["padded_dim"]))
    blocks = {"K": k_tile, "V": k_tile}
    if not arguments["warp_specialize"]:
        blocks["Q"] = (int(arguments["block_m"]), int(arguments["padded_dim"]))
    return TritonKernel(flash2_tma_kernel, arguments, blocks)


TWINS = {"flash2_tma": twin}
_WIDE = Config(block_m=128, block_n=128, num_warps=4, num_stages=2, warp_specialize=1)
RECOMMENDED = {
    (64, False): Config(block_m=64, block_n=128, num_warps=4, num_stages=2),
    (64, True): Config(block_m=64, block_n=128, num_warps=4, num_stages=2, cta_order="m-reversed"),
    (128, False): _WIDE,
    (128, True): _WIDE.but(cta_order="m-reversed"),
}
"""(head dimension, causal) -> a configuration to begin with on Hopper (see `launch.registry.recommended`)."""


def flash2_tma(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    config: Config | None = None,
    device: Device | str | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention by FlashAttention-2 with TMA, on GPUs of compute capability 9.0 or newer.

    Args:
        q, k, v: as `flash2` takes them; D is a multiple of 16 where they are fp8.
        causal, config, device: as in `flash2`.

    Returns:
        O and LSE, as `flash2`.

    Raises:
        ValueError: tensors or configuration that the kernel cannot take, a GPU without TMA,
            or warp specialisation that was asked for and not done; one line.
    """
    tensors = {"Q": q, "K": k, "V": v}
    run_all(launches_for("flash2_tma", problem_of(q, k, v, causal=causal), config, device, q), TWINS, tensors)
    return tensors["O"].view(q.shape), tensors["LSE"].view(q.shape[:3])
