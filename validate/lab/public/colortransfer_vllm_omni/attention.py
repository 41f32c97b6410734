"""Attention of triangles, backward, and of neighbourhoods; rotary turns and pools, backward."""

import torch
from launching import Body, case
from libraries import axolotl, megatron, plain, protenix
from made import bf16, fp32, int8


@case("protenix.triangle_backward", "attention")
def triangle_backward(device: str) -> Body:
    op, size, heads, width = protenix("model.tri_attention.backward"), 256, 4, 32
    q, k, v, dk, dv, do = (bf16(device, 1, size, size, heads, width) for _ in range(6))
    one, two, d_two = bf16(device, 1, size, 1, 1, size), *(bf16(device, 1, 1, heads, size, size) for _ in range(2))
    lse, delta = (fp32(device, 1, size, size, heads) for _ in range(2))
    given, sizes = (q, k, v, one, two, lse, delta), (size, size, heads)
    tiles = {"BLOCK_M": 64, "BLOCK_N": 32, "num_warps": 4, "num_stages": 2}
    options = tiles | {"HEAD_DIM": width, "TAG_N": size, "deterministic": False}
    return lambda: (
        op._attention_bwd_dkdv.fn[(4, heads, size)](*given, dk, dv, do, *sizes, **options),
        op._attention_bwd_dbias2.fn[(4, 8, heads)](*given, d_two, do, *sizes, **options),
    )


@case("comfy_kitchen.neighbourhood_3d", "attention")
def neighbourhood(device: str) -> Body:
    op = plain("comfy_kitchen.backends.triton.na")._na3d_kernel
    q, k, v, out = (bf16(device, 1, 8, 30, 52, 16, 64) for _ in range(4))
    options = {"kt": 3, "kh": 7, "kw": 7, "causal_t": False, "causal_h": False, "causal_w": False}
    options |= {"hd": 64, "hd_pad": 64, "block_q": 16, "block_k": 32, "is_fp32": False, "num_warps": 4}
    return lambda: op[(4, 240, 16)](q, k, v, out, 8, 30, 52, 16, *q.stride()[:5], 0.125, **options)


@case("megatron.latent_rotary_backward", "rotary")
def latent_rotary(device: str) -> Body:
    op, tokens, heads = megatron("fusions.fused_mla_yarn_rope_apply"), 8192, 128
    dq, dk, dv = (bf16(device, tokens, heads, width) for width in (192, 192, 128))
    dkv, drotary, cos, sin = (
        bf16(device, tokens, heads, 256),
        bf16(device, tokens, 1, 64),
        *(fp32(device, 4096, 64) for _ in range(2)),
    )
    grid = lambda meta: (tokens, heads // meta["BLOCK_H"])  # noqa: E731
    steps = *dk.stride()[:2], *dv.stride()[:2], *dkv.stride()[:2], drotary.stride(0)
    return lambda: (
        op.rotary_bwd_q_kernel[grid](dq, cos, sin, 128, 64, heads, 2, None, None, *dq.stride()[:2], 0, 1),
        op.rotary_bwd_kv_kernel[grid](dk, dv, dkv, drotary, cos, sin, 64, 128, 128, heads, 2, None, None, *steps, 0, 1),
    )


@case("axolotl.gated_pool_backward", "gather")
def gated_pool(device: str) -> Body:
    op = axolotl("integrations.kernels.libs.dsv4.gated_pool")._pool_bwd_kernel.fn
    kv, gate = (bf16(device, 512, 128, 512) for _ in range(2))
    dkv, dgate, do = fp32(device, 512, 128, 512), fp32(device, 512, 128, 512), fp32(device, 512, 512)
    return lambda: op[(512, 8)](kv, gate, do, dkv, dgate, 512, 512, W=128, BD=64, num_warps=4)


@case("colsearch.one_bit_maxsim", "attention")
def one_bit_maxsim(device: str) -> Body:
    op = plain("colsearch._internal.kernels.triton_roq")._roq_maxsim_1bit_kernel
    q, documents = (int8(device, *shape, 16).view(torch.uint8) for shape in ((8, 32), (4096, 192)))
    out = fp32(device, 8, 4096)
    return lambda: op[(8, 4096)](q, documents, out, 512, 128, 192 * 16, 16, 4096, 1, 8, 4096, 32, 192, 16, BLOCK_DIM=32)
