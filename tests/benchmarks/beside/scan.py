"""A selective scan of 2,048 steps (Mamba 1): a CTA for each sequence and block of channels, 16 states a channel."""

import torch
import triton
import triton.language as tl


@triton.jit
def scan(U, DT, A, B, C, Y, L, D, N: tl.constexpr, BD: tl.constexpr):
    b, d = tl.program_id(0), tl.program_id(1)
    rd, rn = d * BD + tl.arange(0, BD), tl.arange(0, N)
    a = tl.load(A + rd[:, None] * N + rn[None, :])
    h = tl.zeros((BD, N), tl.float32)
    for t in range(L):
        o = (b * L + t) * D + rd
        u, dt = tl.load(U + o).to(tl.float32), tl.load(DT + o).to(tl.float32)
        bt, ct = tl.load(B + (b * L + t) * N + rn).to(tl.float32), tl.load(C + (b * L + t) * N + rn).to(tl.float32)
        h = tl.exp(dt[:, None] * a) * h + (dt * u)[:, None] * bt[None, :]
        tl.store(Y + o, tl.sum(h * ct[None, :], 1).to(tl.bfloat16))


def run(batch=8, L=2048, D=4096, BD=64, warps=2):
    u = torch.empty(batch, L, D, device="cuda", dtype=torch.bfloat16)
    bc = torch.empty(batch, L, 16, device="cuda", dtype=torch.bfloat16)
    scan[(batch, D // BD)](
        u, torch.empty_like(u), torch.empty(D, 16, device="cuda"), bc, torch.empty_like(bc), torch.empty_like(u),
        L, D, N=16, BD=BD, num_warps=warps,
    )  # fmt: skip
