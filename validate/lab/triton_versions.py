"""Two kernels of the kind that public reports call slower with another Triton; `triton_versions.md` has the answers.

tilesight diff --triton 3.6.0,3.7.1 validate/lab/triton_versions.py:decode --device a100-sxm-80gb
tilesight diff --triton 3.5.1,3.6.0 validate/lab/triton_versions.py:delta --device h100
"""

import torch
import triton
import triton.language as tl

ROWS, HEADS, DIM, TOKENS, CACHE = 24, 64, 512, (128 + 4096) // 8, 1 << 16
"""Of the decode: query rows, heads, size of a token, tokens that each row attends to (an eighth of those reported, as
every one is followed), and tokens in the cache."""
LENGTH, VALUE_HEADS, KEY_HEADS, SIZE, CHUNK = 9418, 8, 4, 128, 64
"""Of the recurrence: tokens, heads of values and keys, size of a head, tokens that a step takes."""


@triton.jit
def sparse_decode(
    Q, KV, Powers, Index, Out, tokens, scale, H: tl.constexpr, D: tl.constexpr, BH: tl.constexpr, BN: tl.constexpr
):
    """Attention of some heads of a row to the tokens that an index names, which lie in the cache as FP8 with powers."""
    row, head = tl.program_id(0), tl.program_id(1) * BH + tl.arange(0, BH)
    d = tl.arange(0, D)
    q = tl.load(Q + (row * H + head)[:, None] * D + d[None, :])
    top = tl.full([BH], float("-inf"), tl.float32)
    total = tl.zeros([BH], tl.float32)
    acc = tl.zeros([BH, D], tl.float32)
    for begin in range(0, tokens, BN):
        place = begin + tl.arange(0, BN)
        inside = place < tokens
        token = tl.load(Index + row * tokens + place, mask=inside, other=0).to(tl.int64)
        raw = tl.load(KV + token[:, None] * D + d[None, :], mask=inside[:, None], other=0).to(tl.int32)
        exact = (((raw & 0x80) << 24) | ((raw & 0x7F) << 20)).to(tl.float32, bitcast=True) * 2.0**120  # E4M3
        groups = Powers + token[:, None] * (D // 64) + (d // 64)[None, :]
        power = tl.load(groups, mask=inside[:, None], other=0).to(tl.int32) << 23
        kv = (exact * power.to(tl.float32, bitcast=True)).to(tl.bfloat16)
        s = tl.where(inside[None, :], tl.dot(q, tl.trans(kv)) * scale, float("-inf"))
        highest = tl.maximum(top, tl.max(s, 1))
        p = tl.exp2(s - highest[:, None])
        kept = tl.exp2(top - highest)
        total = total * kept + tl.sum(p, 1)
        acc = acc * kept[:, None] + tl.dot(p.to(kv.dtype), kv)
        top = highest
    tl.store(Out + (row * H + head)[:, None] * D + d[None, :], (acc / total[:, None]).to(Out.dtype.element_ty))


def decode():
    """At two blocks of tokens, with 4 and 8 warps each."""
    q = torch.empty(ROWS, HEADS, DIM, device="cuda", dtype=torch.bfloat16)
    cache = torch.empty(CACHE, DIM, device="cuda", dtype=torch.uint8)
    powers = torch.empty(CACHE, DIM // 64, device="cuda", dtype=torch.uint8)
    index = (torch.arange(ROWS * TOKENS, dtype=torch.int32) * 5 % CACHE).view(ROWS, TOKENS).to("cuda")
    for block in (16, 32):
        for warps in (4, 8):
            sparse_decode[(ROWS, HEADS // 16)](
                *(q, cache, powers, index, torch.empty_like(q), TOKENS, 0.06),
                **{"H": HEADS, "D": DIM, "BH": 16, "BN": block, "num_warps": warps, "num_stages": 1},
            )


@triton.jit
def delta_state(
    K, W, U, G, New, States, T, H: tl.constexpr, HK: tl.constexpr, V: tl.constexpr, BT: tl.constexpr, BV: tl.constexpr
):
    """Some columns of the state of a gated delta rule (128 rows, in two halves), chunk after chunk of tokens."""
    column, head = tl.program_id(0) * BV, tl.program_id(1)
    K += head // (H // HK) * 128
    W += head * 128
    U += head * V
    New += head * V
    States += head * 128 * V
    upper = tl.zeros([64, BV], tl.float32)
    lower = tl.zeros([64, BV], tl.float32)
    for step in range(tl.cdiv(T, BT)):
        state = States + step.to(tl.int64) * H * 128 * V
        at_upper = tl.make_block_ptr(state, (128, V), (V, 1), (0, column), (64, BV), (1, 0))
        at_lower = tl.make_block_ptr(state, (128, V), (V, 1), (64, column), (64, BV), (1, 0))
        tl.store(at_upper, upper.to(tl.bfloat16), boundary_check=(0, 1))
        tl.store(at_lower, lower.to(tl.bfloat16), boundary_check=(0, 1))
        w = tl.make_block_ptr(W, (T, 128), (H * 128, 1), (step * BT, 0), (BT, 64), (1, 0))
        new = tl.dot(tl.load(w, boundary_check=(0, 1)), upper.to(tl.bfloat16))
        w = tl.make_block_ptr(W, (T, 128), (H * 128, 1), (step * BT, 64), (BT, 64), (1, 0))
        new += tl.dot(tl.load(w, boundary_check=(0, 1)), lower.to(tl.bfloat16))
        u = tl.make_block_ptr(U, (T, V), (H * V, 1), (step * BT, column), (BT, BV), (1, 0))
        at_new = tl.make_block_ptr(New, (T, V), (H * V, 1), (step * BT, column), (BT, BV), (1, 0))
        new = tl.load(u, boundary_check=(0, 1)) - new
        tl.store(at_new, new.to(tl.bfloat16), boundary_check=(0, 1))
        last = tl.load(G + (min((step + 1) * BT, T) - 1) * H + head)
        g = tl.make_block_ptr(G + head, (T,), (H,), (step * BT,), (BT,), (0,))
        gap = last - tl.load(g, boundary_check=(0,))
        new = (new * tl.exp(tl.where(gap <= 0, gap, float("-inf")))[:, None]).to(tl.bfloat16)
        decay = tl.exp(last)
        k = tl.make_block_ptr(K, (128, T), (1, HK * 128), (0, step * BT), (64, BT), (0, 1))
        upper = upper * decay + tl.dot(tl.load(k, boundary_check=(0, 1)), new)
        k = tl.make_block_ptr(K, (128, T), (1, HK * 128), (64, step * BT), (64, BT), (0, 1))
        lower = lower * decay + tl.dot(tl.load(k, boundary_check=(0, 1)), new)


def delta():
    """Blocks of 32 columns, 4 warps, with 2, 3 and 4 stages."""

    def empty(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
        return torch.empty(*shape, device="cuda", dtype=dtype)

    k, w, u, new = (empty(LENGTH, heads, SIZE) for heads in (KEY_HEADS, VALUE_HEADS, VALUE_HEADS, VALUE_HEADS))
    gates = empty(LENGTH, VALUE_HEADS, dtype=torch.float32)
    states = empty(triton.cdiv(LENGTH, CHUNK), VALUE_HEADS, SIZE, SIZE)
    for stages in (2, 3, 4):
        delta_state[(SIZE // 32, VALUE_HEADS)](
            *(k, w, u, gates, new, states, LENGTH),
            **{"H": VALUE_HEADS, "HK": KEY_HEADS, "V": SIZE, "BT": CHUNK, "BV": 32},
            **{"num_warps": 4, "num_stages": stages},
        )
