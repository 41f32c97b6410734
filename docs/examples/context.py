"""Causal attention of one long sequence over several GPUs, in three ways.

    tilesight profile docs/examples/context.py:ring --gpus 8

The sequence is cut into 2 P chunks for P GPUs; GPU r holds chunks r and 2 P - 1 - r, so that all have as much to do
under the causal mask. TOKENS says how long it is; heads are those of Llama-2-7B.

ring    keys and values go round, while those that are there are used
gather  each GPU gathers all keys and values first
heads   GPUs exchange parts of the sequence for heads, and exchange the result back
"""

import os

import torch
import torch.distributed as dist

TOKENS, HEADS, DIM = int(os.environ.get("TOKENS", 32768)), 32, 128
attention = torch.ops.aten._scaled_dot_product_cudnn_attention


def inputs(tokens=TOKENS):
    """Q, K and V of this GPU's two chunks: (1, heads, tokens, dim)."""
    if not dist.is_initialized():
        dist.init_process_group("nccl", device_id=torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0))))
    shape = (1, HEADS, tokens // dist.get_world_size(), DIM)
    return [torch.randn(shape, device="cuda", dtype=torch.bfloat16) for _ in "qkv"]


def attended(q, k, v, causal=False):
    """O in fp32, and the log of the sum of exponentials of each row."""
    o, lse, *_ = attention(q, k, v, None, True, 0.0, causal)
    return o.float(), lse.reshape(*q.shape[:3], 1)


def merged(one, other):
    """Attention to the keys of both."""
    (o, lse), (added, added_lse) = one, other
    return torch.lerp(o, added, torch.sigmoid(added_lse - lse)), torch.logaddexp(lse, added_lse)


def in_order(parts):
    """(GPUs, ..., tokens of each, dim) as (..., tokens, dim)."""
    first, second = parts.chunk(2, -2)
    return torch.cat([*first, *second.flip(0)], -2)


def shared_out(x, ranks):
    """(..., tokens, dim) as (GPUs, ..., tokens of each, dim)."""
    chunks = x.chunk(2 * ranks, -2)
    return torch.stack([torch.cat((chunks[r], chunks[-1 - r]), -2) for r in range(ranks)])


def ring(q, k, v):
    """Keys and values come from the GPU before, and go to the one after."""
    rank, ranks, half = dist.get_rank(), dist.get_world_size(), q.shape[2] // 2
    kv, made = torch.stack((k, v)), None
    for step in range(ranks):
        waits, coming = [], torch.empty_like(kv)
        if step + 1 < ranks:
            sent = dist.P2POp(dist.isend, kv, (rank + 1) % ranks)
            waits = dist.batch_isend_irecv([sent, dist.P2POp(dist.irecv, coming, (rank - 1) % ranks)])
        if step == 0:
            made = attended(q, *kv, causal=True)
        elif step <= rank:  # of a GPU before this one: its first chunk lies before both of ours, its second after both
            made = merged(made, attended(q, *kv[:, :, :, :half]))
        else:  # of one after: both of its chunks lie before our second, and after our first
            late = merged([x[:, :, half:] for x in made], attended(q[:, :, half:], *kv))
            made = [torch.cat((x[:, :, :half], y), 2) for x, y in zip(made, late, strict=True)]
        for wait in waits:
            wait.wait()
        kv = coming
    return made[0].to(q.dtype)


def gather(q, k, v):
    """Both chunks attend to the keys before them, and to their own."""
    rank, ranks, half = dist.get_rank(), dist.get_world_size(), q.shape[2] // 2
    kv = torch.stack((k, v))
    parts = torch.empty(ranks, *kv.shape, device=q.device, dtype=q.dtype)
    dist.all_gather_into_tensor(parts, kv)
    kv, made = in_order(parts), []
    for place, part in zip((rank, 2 * ranks - 1 - rank), q.chunk(2, 2), strict=True):
        own = attended(part, *kv[:, :, :, place * half : (place + 1) * half], causal=True)
        made.append(merged(own, attended(part, *kv[:, :, :, : place * half])) if place else own)
    return torch.cat([o for o, _ in made], 2).to(q.dtype)


def heads(q, k, v):
    """Each GPU has a part of the heads for all tokens."""
    ranks = dist.get_world_size()
    sent = torch.stack((q, k, v)).unflatten(2, (ranks, -1)).movedim(2, 0).contiguous()
    parts = torch.empty_like(sent)
    dist.all_to_all_single(parts, sent)
    o, *_ = attention(*in_order(parts), None, False, 0.0, True)
    back = torch.empty_like(parts[:, 0])
    dist.all_to_all_single(back, shared_out(o, ranks))
    return torch.cat(back.unbind(0), 1)
