"""Attention: with a sigmoid, with derivatives, of triangles and slices, column sums, backward."""

import torch
from launching import Body, case
from libraries import fla, miniworld, plain, triton_sigmoid, vllm
from made import bf16, bounds, fp16, fp32, given


@case("flash_colsum.columns", "attention")
def columns(device: str) -> Body:
    one, many, late = (plain(f"flash_colsum.kernel_{part}") for part in ("noncausal", "noncausal_batched", "causal"))
    q, k = fp16(device, 4, 16, 2048, 64), fp16(device, 4, 16, 2048, 64)
    few, keys = fp16(device, 1, 32, 128, 64), fp16(device, 1, 32, 16384, 64)
    return lambda: (
        one._flash_colsum_non_batched(q[:1], k[:1], 0.125),
        many._flash_colsum_batched(q, k, 0.125),
        late._flash_colsum_causal(few, keys, 0.125),
    )


@case("triton_sigmoid.both_ways", "attention")
def sigmoid_attention(device: str) -> Body:
    op = triton_sigmoid("sigmoid_triton_dense")
    q, k, v, do, o, dq, dk, dv = (bf16(device, 2, 4096, 16, 64) for _ in range(8))
    bias, scale, steps = fp32(device, 2), fp32(device), (*q.stride(), *k.stride())
    options = {"IS_CAUSAL": True, "IS_FP32": False, "IS_BF16": True, "T_bucketed": 8192, "HAS_SCORE_MOD": False}
    rows = lambda meta: (4096 // meta["BLOCK_M"], 32)  # noqa: E731
    keys = lambda meta: (4096 // meta["BLOCK_N"], 32)  # noqa: E731
    return lambda: (
        op._fwd_dense_kernel[rows](q, k, v, o, bias, q, 4096, 16, scale, *steps, D=64, **options),
        op._bwd_dense_dq_kernel[rows](q, k, v, do, dq, bias, q, 4096, 16, scale, *steps, D=64, **options),
        op._bwd_dense_dkdv_kernel[keys](q, k, v, do, dk, dv, bias, q, 4096, 16, scale, *steps, D=64, **options),
    )


@case("jvp_flash_attention.dual", "attention")
def dual_attention(device: str) -> Body:
    op = plain("jvp_flash_attention.jvp_attention")._attn_fwd
    q, k, v, tq, tk, tv, o, to = (fp16(device, 2, 8, 2048, 64) for _ in range(8))
    m, steps = fp32(device, 2, 8, 2048), q.stride() * 8
    return lambda: op[(64, 16, 1)](
        q, k, v, tq, tk, tv, 0.125, m, o, to, q, 0.0, 0, *steps, 0, 0, 0, 0, 2, 8, N_CTX=2048, HEAD_DIM=64,
        FP8_OUTPUT=False, STAGE=3, warp_specialize=False, ENABLE_JVP=True, ENABLE_DROPOUT=False, MASK_TYPE=0,
        BLOCK_M=32, BLOCK_N=32, num_stages=2, num_warps=4,
    )  # fmt: skip


@case("disentangled_flash.attention", "attention")
def disentangled(device: str) -> Body:
    op = plain("disentangled_flash.kernel")._deberta_attention_forward_kernel
    q, k, v, o = (fp16(device, 32, 512, 12, 64).transpose(1, 2) for _ in range(4))
    c2p, p2c = fp16(device, 32, 12, 512, 512), fp16(device, 32, 12, 512, 512)
    far = torch.arange(-511, 512)
    near = far.sign() * torch.where(far.abs() < 128, far.abs(), 128 + (far.abs() - 128) // 4)
    slots = given(device, (near + 256).int())
    return lambda: op[(8, 384)](
        q, k, v, c2p, p2c, slots, slots, o, o, *q.stride(), *k.stride(), *v.stride(), *c2p.stride()[:3], 512, 12, 512,
        511, 64, 0.1, LENGTH_REGIME=512, HAS_C2P=True, HAS_P2C=True, USE_PADDING_MASK=False, IS_BF16=False,
        IS_FP32=False, STRICT_FP32=False, STORE_LSE=False, BLOCK_M=64, BLOCK_N=64, num_warps=4, num_stages=2,
    )  # fmt: skip


@case("miniworld.triangle_attention", "attention")
def triangle(device: str) -> Body:
    op = miniworld("kernels.triangle_attention.triton.main")
    q, k, v, o, do, dq, dk, dv = (bf16(device, 1, 256, 256, 4, 32).permute(0, 3, 1, 2, 4) for _ in range(8))
    bias, parts = bf16(device, 1, 4, 256, 256), bf16(device, 1, 1024, 256, 256)
    m, delta = fp32(device, 1, 4, 256, 256), fp32(device, 1, 1024, 256)
    steps, pad = q.stride(), {"HEAD_DIM_PAD": 32, "shape_key": 3, "num_stages": 2}
    tiles = {"BLOCK_M1": 64, "BLOCK_M2": 64, "num_warps": 4} | pad
    return lambda: (
        op._attn_fwd.fn[(4, 4, 256)](
            q, k, v, bias, 0.177, m, o, *steps, *steps, *bias.stride(), *m.stride(), 1, 4, 256, 32, **tiles
        ),
        op._attn_bwd_preprocess.fn[(4, 1024, 1)](
            o, do, delta, *steps, *steps, 1024, 1, 256, 32, BLOCK_M1=64, num_warps=2, **pad
        ),
        op._attn_bwd_dkdv.fn[(4, 1, 1024)](
            q, k, v, bias, 0.177, do, dk, dv, parts, m, delta, *steps * 3, *bias.stride(), 65536, 256, 1024, 32, **tiles
        ),
        op._attn_bwd_dq.fn[(4, 1, 1024)](
            q, k, v, bias, 0.177, do, dq, m, delta, *steps * 3, *bias.stride(), 256, 1024, 32, **tiles
        ),
    )


@case("flashslice.slices", "attention")
def slices(device: str) -> Body:
    op = plain("flashslice.kernels.slice_ops")
    op.set_tile_table("hopper")
    x, f, do = (bf16(device, 2, 65536, 8, 32) for _ in range(3))
    w, b, tau = bf16(device, 64, 32), bf16(device, 64), fp32(device, 8).abs()
    tokens, dz, ds = bf16(device, 2, 8, 64, 32), fp32(device, 2, 8, 64, 32), fp32(device, 2, 8, 64)
    return lambda: (
        op._slice_impl(x, f, w, b, tau, 3),
        op._slice_bwd_impl(x, f, w, b, tau, dz, ds, 3),
        op._deslice_impl(x, w, b, tau, tokens, 3),
        op._deslice_bwd_impl(x, w, b, tau, tokens, do, 3),
    )


@case("fla.parallax_backward", "attention")
def parallax(device: str) -> Body:
    op = fla("ops.parallax.parallel")
    q, r, o, barv, do, dq, dr, dk, dv = (bf16(device, 1, 4096, 16, 64) for _ in range(9))
    k, v = bf16(device, 1, 4096, 4, 64), bf16(device, 1, 4096, 4, 64)
    d1, bart, m, dt, db = (fp32(device, 1, 4096, 16) for _ in range(5))
    options = {"HQ": 16, "H": 4, "G": 4, "K": 64, "BK": 64, "WINDOW_SIZE_LEFT": -1, "BT": 64, "BS": 64, "num_stages": 2}
    rest = d1, bart, m, dt, db, do
    return lambda: (
        op.parallel_parallax_bwd_kernel_preprocess[(64, 16)](
            do, o, barv, dt, db, None, None, 4096, HQ=16, K=64, BK=64, BT=64, num_warps=4, num_stages=2
        ),
        op.parallel_parallax_bwd_kernel_dqr[(64, 16)](
            q, r, k, v, *rest, dq, dr, 0.125, None, None, 4096, num_warps=8, **options
        ),
        op.parallel_parallax_bwd_kernel_dkv[(64, 16)](
            q, r, k, v, *rest, dk, dv, 0.125, None, None, 4096, num_warps=8, **options
        ),
    )


@case("vllm.rerank", "attention")
def rerank(device: str) -> Body:
    op = vllm("v1.pool.flash_maxsim.flash_maxsim_rerank")._run_rerank_kernel
    lengths = [180, 64, 512, 300, 97, 444, 33, 256] * 64
    q, documents = fp16(device, 32, 128), fp16(device, sum(lengths), 128)
    starts, sizes = given(device, bounds(lengths)[:-1].clone()), given(device, torch.tensor(lengths, dtype=torch.int32))
    return lambda: op(q, documents, starts, sizes, 512)
