"""What public reports are about: norms, flex attention, and Triton kernels of one row or group a CTA.

Own code of the same structure and sizes: sgl-project/sglang#4396 (groups of 128 quantised, a warp each),
ServiceNow/Fast-LLM#498 (rotary embedding in place), pytorch/pytorch#159682 and sgl-project/sglang#20632 (RMSNorm),
pytorch/torchtitan#3342 (of few rows), pytorch/pytorch#161473 (flex attention against SDPA).
"""

from typing import Any

import torch.nn.functional as F
import triton
import triton.language as tl
from torch import Tensor, empty, float8_e4m3fn, float16
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch_parts import Case, drawn

REPORTS: dict[str, Case] = {}
Given = tuple[Any, tuple[Any, ...]]


def report(case: Case) -> Case:
    """Register a case."""
    REPORTS[case.__name__] = case
    return case


@triton.jit
def quantise_group(X, Y, S, G: tl.constexpr):
    at = tl.program_id(0) * G + tl.arange(0, G)
    x = tl.load(X + at).to(tl.float32)
    scale = tl.maximum(tl.max(tl.abs(x), 0), 1e-10) / 448.0
    tl.store(Y + at, tl.clamp(x / scale, -448.0, 448.0).to(tl.float8e4nv))
    tl.store(S + tl.program_id(0), scale)


@triton.jit
def rotate(X, F, stride, BH: tl.constexpr, HALF: tl.constexpr):
    token, i = tl.program_id(0), tl.arange(0, HALF)
    at = X + token * stride + (tl.program_id(1) * BH + tl.arange(0, BH)[:, None]) * (2 * HALF) + i[None, :]
    c, s = tl.load(F + token * 2 * HALF + i), tl.load(F + token * 2 * HALF + HALF + i)
    re, im = tl.load(at).to(tl.float32), tl.load(at + HALF).to(tl.float32)
    tl.store(at, (re * c - im * s).to(tl.bfloat16))
    tl.store(at + HALF, (im * c + re * s).to(tl.bfloat16))


@report
def group_quant(device: str) -> Given:
    given = tuple(drawn(device, tokens, 7168) for tokens in (64, 512, 2048, 8192))

    def run(*many: Tensor) -> None:
        for x in many:
            groups = x.numel() // 128
            scales = empty(groups, device=x.device)
            quantise_group[(groups,)](x, empty(x.shape, device=x.device, dtype=float8_e4m3fn), scales, 128, num_warps=1)

    return run, given


@report
def rotary_in_place(device: str) -> Given:
    given = tuple(drawn(device, *shape, 128) for shape in ((4096, 32), (8192, 32), (4096, 64), (4096, 8)))

    def run(*many: Tensor) -> None:
        for x in many:
            factors = empty(x.shape[0], 128, device=x.device)
            rotate[(x.shape[0], triton.cdiv(x.shape[1], 16))](x, factors, x.shape[1] * 128, min(16, x.shape[1]), 64)

    return run, given


def norms(*shapes: tuple[int, int], dtype: Any = float16) -> Case:
    """RMSNorm of rows."""

    def case(device: str) -> Given:
        given = tuple(drawn(device, *shape, dtype=dtype) for shape in shapes)
        return (lambda *many: [F.rms_norm(x, x.shape[-1:], x[0], 1e-6) for x in many]), given

    return case


@report
def flex_biased(device: str) -> Given:
    biased = lambda x: flex_attention(x, x, x, score_mod=lambda s, b, h, q, k: s - 0.1 * (q - k))  # noqa: E731
    return biased, (drawn(device, 4, 16, 2048, 64, dtype=float16),)


@report
def flex_causal(device: str) -> Given:
    mask = create_block_mask(lambda b, h, q, k: q >= k, None, None, 2048, 2048, device=device)
    return (lambda x: flex_attention(x, x, x, block_mask=mask)), (drawn(device, 4, 16, 2048, 64, dtype=float16),)


REPORTS["norms_wide"] = norms((16384, 1024), (16384, 4096), (32768, 4096), (65536, 1024), (65536, 2048), (65536, 4096))
REPORTS["norms_of_heads"] = norms((4608 * 48, 128), (27030 * 24, 128))
REPORTS["norms_of_few"] = norms((1, 5120), (192, 5120))
