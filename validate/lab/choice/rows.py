"""Cells of kernels that go through rows: RMSNorm with a residual, and softmax."""

import itertools

import torch
import triton
import triton.language as tl
from cells import Cell, Config, Launch, Tensors, cdiv, drawn, enter, normal, options


@triton.jit
def rms_norm(X, R, W, S, Y, M, N, ROWS: tl.constexpr, BLOCK: tl.constexpr, WHOLE: tl.constexpr):
    """S = X + R, Y = S / rms(S) * W; rows in registers where a block holds one WHOLE, else read twice."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    i = tl.arange(0, BLOCK)
    at, real = (row * N)[:, None], (row < M)[:, None]
    if WHOLE:
        ok = real & (i < N)[None, :]
        s = tl.load(X + at + i[None, :], mask=ok, other=0.0) + tl.load(R + at + i[None, :], mask=ok, other=0.0)
        tl.store(S + at + i[None, :], s, mask=ok)
        s = s.to(tl.float32)
        scale = tl.rsqrt(tl.sum(s * s, 1) / N + 1e-6)
        w = tl.load(W + i, mask=i < N, other=0.0)
        tl.store(Y + at + i[None, :], s * scale[:, None] * w[None, :], mask=ok)
    else:
        total = tl.zeros([ROWS, BLOCK], tl.float32)
        for j in range(0, N, BLOCK):
            ok = real & (j + i < N)[None, :]
            s = tl.load(X + at + j + i[None, :], mask=ok, other=0.0)
            s += tl.load(R + at + j + i[None, :], mask=ok, other=0.0)
            tl.store(S + at + j + i[None, :], s, mask=ok)
            total += s.to(tl.float32) * s.to(tl.float32)
        scale = tl.rsqrt(tl.sum(total, 1) / N + 1e-6)
        for j in range(0, N, BLOCK):
            ok = real & (j + i < N)[None, :]
            s = tl.load(X + at + j + i[None, :], mask=ok, other=0.0)
            s += tl.load(R + at + j + i[None, :], mask=ok, other=0.0)
            w = tl.load(W + j + i, mask=j + i < N, other=0.0)
            tl.store(Y + at + j + i[None, :], s.to(tl.float32) * scale[:, None] * w[None, :], mask=ok)


@triton.jit
def softmax(X, Y, M, N, ROWS: tl.constexpr, BLOCK: tl.constexpr, WHOLE: tl.constexpr):
    """Y = softmax(X) by rows, in registers where a block holds one WHOLE, else online and read twice."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    i = tl.arange(0, BLOCK)
    at, real = (row * N)[:, None], (row < M)[:, None]
    if WHOLE:
        ok = real & (i < N)[None, :]
        x = tl.load(X + at + i[None, :], mask=ok, other=float("-inf")).to(tl.float32)
        e = tl.exp(x - tl.max(x, 1)[:, None])
        tl.store(Y + at + i[None, :], e / tl.sum(e, 1)[:, None], mask=ok)
    else:
        most, total = tl.full([ROWS], float("-inf"), tl.float32), tl.zeros([ROWS], tl.float32)
        for j in range(0, N, BLOCK):
            ok = real & (j + i < N)[None, :]
            x = tl.load(X + at + j + i[None, :], mask=ok, other=float("-inf")).to(tl.float32)
            new = tl.maximum(most, tl.max(x, 1))
            total = total * tl.exp(most - new) + tl.sum(tl.exp(x - new[:, None]), 1)
            most = new
        for j in range(0, N, BLOCK):
            ok = real & (j + i < N)[None, :]
            x = tl.load(X + at + j + i[None, :], mask=ok, other=float("-inf")).to(tl.float32)
            tl.store(Y + at + j + i[None, :], tl.exp(x - most[:, None]) / total[:, None], mask=ok)


SHAPES = {
    "rms_norm": ((2048, 2560), (6000, 7168), (512, 16384), (20000, 1536)),
    "softmax": ((4096, 1000), (3000, 12288), (128, 65536), (30000, 640)),
}
"""Rows and columns."""


def _space(m: int, n: int) -> list[Config]:
    whole = triton.next_power_of_2(n)
    return [
        {"ROWS": rows, "BLOCK": block, "num_warps": warps}
        for rows, block, warps in itertools.product(
            (1, 2, 4, 8, 16), sorted({256, 512, 1024, 2048, 4096, 8192, whole}), (1, 2, 4, 8, 16, 32)
        )
        if block <= whole and 64 * warps <= rows * block <= 4096 * warps and rows * block <= 32768 and rows * 64 <= m
    ]


def _cell(kind: str, seed: int, m: int, n: int) -> Cell:
    def make(device: str) -> Tensors:
        names = ("x", "r", "s", "out") if kind == "rms_norm" else ("x", "out")
        return {name: normal(device, m, n) for name in names} | {"w": normal(device, n)}

    def launch(t: Tensors, config: Config) -> Launch:
        named = {"ROWS": config["ROWS"], "BLOCK": config["BLOCK"], "WHOLE": config["BLOCK"] >= n}
        kernel = rms_norm if kind == "rms_norm" else softmax
        tensors = [t["x"], t["r"], t["w"], t["s"], t["out"]] if kind == "rms_norm" else [t["x"], t["out"]]
        return kernel, (cdiv(m, config["ROWS"]),), [*tensors, m, n], named | options(config)

    def reference(t: Tensors) -> torch.Tensor:
        if kind == "softmax":
            return torch.softmax(t["x"].float(), 1)
        s = (t["x"] + t["r"]).float()
        return s * torch.rsqrt(s.square().mean(1, keepdim=True) + 1e-6) * t["w"]

    return Cell(
        family="rows", name=f"{kind}-{m}x{n}", shape={"kernel": kind, "M": m, "N": n},
        configs=drawn(_space(m, n), 42, seed=seed), make=make, launch=launch, reference=reference,
    )  # fmt: skip


for _kind, _shapes in SHAPES.items():
    for _seed, _shape in enumerate(_shapes):
        enter(_cell(_kind, 30 + _seed, *_shape))
