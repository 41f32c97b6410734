"""Cells of matrix products, weights as rows of K or as rows of N."""

import itertools

import triton
import triton.language as tl
from cells import SMEM_BYTES, Cell, Config, Launch, Tensors, cdiv, drawn, enter, normal, options


@triton.jit
def gemm(A, B, C, M, N, K, ldbk, ldbn, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP_M: tl.constexpr):
    """C = A B in tiles, in groups of GROUP_M rows of tiles."""
    pid = tl.program_id(0)
    across_m, across_n = tl.cdiv(M, BM), tl.cdiv(N, BN)
    group = pid // (GROUP_M * across_n)
    first = group * GROUP_M
    high = min(across_m - first, GROUP_M)
    m, n = first + pid % (GROUP_M * across_n) % high, pid % (GROUP_M * across_n) // high
    rm, rn, rk = (m * BM + tl.arange(0, BM)) % M, (n * BN + tl.arange(0, BN)) % N, tl.arange(0, BK)
    a, b = A + rm[:, None] * K + rk[None, :], B + rk[:, None] * ldbk + rn[None, :] * ldbn
    total = tl.zeros([BM, BN], tl.float32)
    for k in range(0, tl.cdiv(K, BK)):
        left = K - k * BK
        x = tl.load(a, mask=rk[None, :] < left, other=0.0)
        y = tl.load(b, mask=rk[:, None] < left, other=0.0)
        total = tl.dot(x, y, total)
        a += BK
        b += BK * ldbk
    rm, rn = m * BM + tl.arange(0, BM), n * BN + tl.arange(0, BN)
    tl.store(C + rm[:, None] * N + rn[None, :], total.to(tl.bfloat16), mask=(rm < M)[:, None] & (rn < N)[None, :])


SHAPES = (
    (1024, 5120, 2560, "kn"), (2560, 3072, 3328, "kn"), (8192, 3584, 2048, "nk"), (2048, 1280, 8192, "nk"),
    (6144, 6144, 1536, "kn"), (16, 6144, 4096, "nk"), (64, 10240, 3072, "nk"), (192, 2048, 7168, "nk"),
)  # fmt: skip
"""M, N, K, and how B lies."""
WIDE = [
    {"BM": bm, "BN": bn, "BK": bk, "GROUP_M": group, "num_warps": warps, "num_stages": stages}
    for bm, bn, bk, group, warps, stages in itertools.product(
        (64, 128, 256), (64, 128, 256), (32, 64, 128), (1, 8), (4, 8), (2, 3, 4, 5)
    )
    if bm * bn <= 32768 and stages * (bm + bn) * bk * 2 <= SMEM_BYTES and bm * bn >= 4096 * (warps // 4)
]
FLAT = [
    {"BM": bm, "BN": bn, "BK": bk, "GROUP_M": 8, "num_warps": warps, "num_stages": stages}
    for bm, bn, bk, warps, stages in itertools.product(
        (16, 32, 64), (32, 64, 128, 256), (64, 128, 256), (2, 4, 8), (2, 3, 4, 5)
    )
    if bm * bn <= 16384 and stages * (bm + bn) * bk * 2 <= SMEM_BYTES and bm * bn >= 512 * warps // 2
]  # fmt: skip


def _cell(m: int, n: int, k: int, lies: str) -> Cell:
    def make(device: str) -> Tensors:
        shape = (k, n) if lies == "kn" else (n, k)
        out = {"a": normal(device, m, k), "b": normal(device, *shape), "out": normal(device, m, n)}
        return out

    def launch(t: Tensors, config: Config) -> Launch:
        grid = (cdiv(m, config["BM"]) * cdiv(n, config["BN"]),)
        strides = (n, 1) if lies == "kn" else (1, k)
        named = {name: config[name] for name in ("BM", "BN", "BK", "GROUP_M")}
        return gemm, grid, [t["a"], t["b"], t["out"], m, n, k, *strides], named | options(config)

    configs = drawn(WIDE if m > 256 else FLAT, 44, seed=1 if m > 256 else 2)
    return Cell(
        family="gemm", name=f"gemm-{m}x{n}x{k}-{lies}", shape={"M": m, "N": n, "K": k, "B": lies}, configs=configs,
        make=make, launch=launch, reference=lambda t: t["a"] @ (t["b"] if lies == "kn" else t["b"].T),
    )  # fmt: skip


for _shape in SHAPES:
    enter(_cell(*_shape))
