"""Triton kernels on what SMs do: libdevice, products by type, skinny products, atomics, integer chains, long loops.

`python sm_kernels.py warm K N` compiles every Nth case from the Kth; `python sm_kernels.py` prints a line for each:
`cold_us` is behind a write of 256 MB, the median of 9, `warm_us` that of 20 in a row. No size is that of a test's case.
What is `elements` here the data call `each`.
"""

import json
import statistics
import sys

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

F32, BF16, F16, I32, I64 = torch.float32, torch.bfloat16, torch.float16, torch.int32, torch.int64
F64, I8 = torch.float64, torch.int8
CASES = {}


def case(name, **values):
    def add(build):
        CASES[name + "".join(f",{k}={v}" for k, v in values.items())] = lambda: build(**values)
        return build

    return add


@triton.jit
def m_math(X, Y, big, OP: tl.constexpr, TIMES: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(X + i)
    for _ in range(TIMES):
        z = x * 0.02 + big
        if OP == "sin":
            x = tl.sin(z)
        elif OP == "cos":
            x = tl.cos(z)
        elif OP == "tanh":
            x = libdevice.tanh(z)
        elif OP == "exp":
            x = tl.exp(z)
        elif OP == "log":
            x = tl.log(z)
        elif OP == "erf":
            x = tl.erf(z)
        elif OP == "log1p":
            x = libdevice.log1p(z)
        elif OP == "expm1":
            x = libdevice.expm1(z)
        elif OP == "pow":
            x = libdevice.pow(z, 1.3)
        elif OP == "sqrt":
            x = tl.sqrt(z)
        elif OP == "div":
            x = 1.5 / z
        elif OP == "div_rn":
            x = tl.div_rn(tl.full((BLOCK,), 1.5, tl.float32), z)
        elif OP == "atan":
            x = libdevice.atan(z)
        elif OP == "acosh":
            x = libdevice.acosh(z)
        else:
            x = z
    tl.store(Y + i, x)


def maths(op, big, times=100, start=0.0):
    n = 1536 * 1024
    x, y = torch.full((n,), start, device="cuda"), torch.empty(n, device="cuda")
    return lambda: m_math[(n // 1024,)](x, y, big, op, times, 1024, num_warps=8)


for op, big in [
    ("sin", 0.3),
    ("sin", 2e4),
    ("sin", 3e6),
    ("sin", 2e8),
    ("cos", 4e5),
    ("tanh", 0.2),
    ("tanh", 0.45),
    ("tanh", 0.7),
    ("tanh", 3.0),
    ("exp", 0.1),
    ("log", 3.0),
    ("erf", 0.3),
    ("erf", 1.6),
    ("log1p", 0.3),
    ("expm1", 0.2),
    ("pow", 1.5),
    ("sqrt", 2.0),
    ("div", 2.0),
    ("div_rn", 2.0),
    ("atan", 0.4),
]:
    case("math", op=op, big=big)(maths)
case("math", op="sin", big=0.0, start=3e6)(maths)
case("math", op="tanh", big=0.2, start=30.0)(maths)


@triton.jit
def m_gemm(
    A,
    B,
    C,
    M,
    N,
    K,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    ACC: tl.constexpr,
    PREC: tl.constexpr,
    IMPRECISE: tl.constexpr,
):
    p = tl.program_id(0)
    nm, nn = M // BM, N // BN
    first = (p // (8 * nn)) * 8
    size = min(nm - first, 8)
    pm = first + (p % (8 * nn)) % size
    pn = (p % (8 * nn)) // size
    rm, rn, rk = pm * BM + tl.arange(0, BM), pn * BN + tl.arange(0, BN), tl.arange(0, BK)
    a = A + rm[:, None] * K + rk[None, :]
    b = B + rn[None, :] * K + rk[:, None]
    acc = tl.zeros((BM, BN), ACC)
    for _ in range(0, K, BK):
        if IMPRECISE is None:
            acc = tl.dot(tl.load(a), tl.load(b), acc, input_precision=PREC, out_dtype=ACC)
        else:
            acc = tl.dot(tl.load(a), tl.load(b), acc, max_num_imprecise_acc=IMPRECISE)
        a += BK
        b += BK
    tl.store(C + rm[:, None] * N + rn[None, :], acc.to(C.dtype.element_ty))


TYPES = {
    "f64": (F64, F64, tl.float64),
    "f16": (F16, F16, tl.float32),
    "f16a16": (F16, F16, tl.float16),
    "bf16": (BF16, BF16, tl.float32),
    "fp8": (torch.float8_e4m3fn, F16, tl.float32),
    "i8": (I8, I32, tl.int32),
    "f32": (F32, F32, tl.float32),
}


def gemm(d, m, n, k, bm, bn, bk, w=4, s=3, prec=None, imp=None):
    dt, out, acc = TYPES[d]

    def make(r, c):
        return (
            torch.randint(-127, 127, (r, c), device="cuda", dtype=I8)
            if d == "i8"
            else torch.randn(r, c, device="cuda").to(dt)
        )

    a, b, c = make(m, k), make(n, k), torch.empty(m, n, device="cuda", dtype=out)
    return lambda: m_gemm[((m // bm) * (n // bn),)](
        a, b, c, m, n, k, bm, bn, bk, acc, prec, imp, num_warps=w, num_stages=s
    )


G = [
    ("f64", 1536, 1536, 3072, 64, 64, 16),
    ("f64", 1536, 1536, 3072, 64, 64, 32),
    ("f64", 1536, 1536, 3072, 32, 32, 16),
    ("f64", 1536, 1536, 3072, 32, 64, 16),
    ("f64", 1536, 1536, 3072, 64, 64, 16, 8),
    ("f64", 1536, 1536, 3072, 128, 64, 16, 8),
    ("f64", 1536, 1536, 3072, 16, 16, 32, 2),
    ("i8", 3072, 3072, 3072, 128, 128, 64, 4),
    ("i8", 3072, 3072, 3072, 128, 128, 128, 8),
    ("i8", 3072, 3072, 3072, 64, 64, 64, 4),
    ("i8", 3072, 3072, 3072, 32, 64, 64, 4),
    ("fp8", 3072, 3072, 3072, 128, 128, 64, 4),
    ("fp8", 3072, 3072, 3072, 128, 128, 128, 8),
    ("fp8", 3072, 3072, 3072, 64, 128, 128, 4),
    ("fp8", 3072, 3072, 3072, 128, 256, 64, 8),
    ("fp8", 3072, 3072, 3072, 32, 64, 64, 4),
    ("f16", 3072, 3072, 3072, 128, 128, 64, 4),
    ("f16", 3072, 3072, 3072, 128, 128, 64, 8),
    ("f16a16", 3072, 3072, 3072, 128, 128, 64, 4),
    ("f16a16", 3072, 3072, 3072, 32, 64, 64, 4),
    ("bf16", 3072, 3072, 3072, 32, 64, 64, 4),
]
for g in G:
    case("gemm", **dict(zip(("d", "m", "n", "k", "bm", "bn", "bk", "w"), g, strict=False)))(gemm)
for imp in (0, 32, 128):
    case("gemm", d="fp8", m=3072, n=3072, k=3072, bm=128, bn=128, bk=128, w=8, imp=imp)(gemm)
for prec in ("tf32", "tf32x3", "ieee"):
    case("gemm", d="f32", m=1536, n=1536, k=1536, bm=64, bn=64, bk=32, w=4, prec=prec)(gemm)


@triton.jit
def m_skinny(X, W, Y, K, N, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    n = tl.program_id(0) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    m = tl.arange(0, BM)
    acc = tl.zeros((BM, BN), tl.float32)
    for at in range(0, K, BK):
        x = tl.load(X + m[:, None] * K + at + k[None, :])
        w = tl.load(W + (at + k)[:, None] * N + n[None, :])
        acc = tl.dot(x, w, acc)
    tl.store(Y + m[:, None] * N + n[None, :], acc.to(tl.bfloat16))


def skinny(k, n, bn, bk, s, bm=16, w=4):
    x, wt, y = (
        torch.randn(bm, k, device="cuda").to(BF16),
        torch.randn(k, n, device="cuda").to(BF16),
        torch.empty(bm, n, device="cuda", dtype=BF16),
    )
    return lambda: m_skinny[(n // bn,)](x, wt, y, k, n, bm, bn, bk, num_warps=w, num_stages=s)


for v in [
    (4096, 12288, 32, 128, 4),
    (4096, 12288, 64, 128, 4),
    (4096, 12288, 32, 64, 4),
    (4096, 12288, 128, 64, 4),
    (4096, 12288, 32, 128, 2),
    (4096, 12288, 32, 128, 3),
    (4096, 4224, 32, 128, 4),
    (4096, 4224, 64, 128, 4),
    (2048, 4224, 32, 128, 4),
    (4096, 16896, 64, 64, 3),
]:
    case("skinny", **dict(zip(("k", "n", "bn", "bk", "s"), v, strict=False)))(skinny)
case("skinny", k=4096, n=12288, bn=32, bk=128, s=4, w=2)(skinny)
case("skinny", k=4096, n=12288, bn=32, bk=128, s=4, bm=32)(skinny)


@triton.jit
def m_add(Y, Z, GIVE: tl.constexpr, BLOCKS: tl.constexpr, BLOCK: tl.constexpr):
    i = (tl.program_id(0) % BLOCKS) * BLOCK + tl.arange(0, BLOCK)
    v = tl.full((BLOCK,), 1, Y.dtype.element_ty)
    old = tl.atomic_add(Y + i, v, sem="relaxed")
    if GIVE:
        tl.store(Z + i, old)


def add(t, give, block=512):
    d = {"f32": F32, "i32": I32, "i64": I64, "f16": F16, "bf16": BF16, "f64": F64}[t]
    n = 1 << 21
    y, z = torch.zeros(n, device="cuda", dtype=d), torch.empty(n, device="cuda", dtype=d)
    return lambda: m_add[(24576,)](y, z, give, n // block, block, num_warps=4)


for t in ("f32", "i32", "i64", "f16", "bf16", "f64"):
    for give in (0, 1):
        case("add", t=t, give=give)(add)
for t in ("f32", "bf16", "i64"):
    case("add", t=t, give=0, block=2048)(add)


@triton.jit
def m_chain(Y, a, KIND: tl.constexpr, STEPS: tl.constexpr):
    x = (a * 3).to(tl.int64) if KIND == "int64" else (a * 3).to(tl.int32)
    c = x
    for _ in range(STEPS):
        for _ in tl.static_range(8):
            x = x * c + c
    tl.store(Y, x.to(tl.float32))


def chain(kind, warps):
    y = torch.empty(1, device="cuda")
    return lambda: m_chain[(1,)](y, 0.7, kind, 900, num_warps=warps)


for kind in ("int64", "int32"):
    case("chain", kind=kind, warps=1)(chain)


@triton.jit(do_not_specialize=["ONCE"])
def m_code(Y, a, b, STEPS, ONCE, U: tl.constexpr, BLOCK: tl.constexpr):
    x = tl.arange(0, BLOCK).to(tl.float32)
    for _ in range(STEPS):
        for _ in range(ONCE):
            for _ in tl.static_range(U):
                x = x * a + b
    tl.store(Y + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), x)


def code(u, w, elements, per_sm):
    block = w * 32 * elements
    y = torch.empty(132 * per_sm * block, device="cuda")
    return lambda: m_code[(132 * per_sm,)](y, 0.999, 0.001, 3072 // u, 1, u, block, num_warps=w)


LOOPS = [
    (48, 4, 32, 3),
    (384, 8, 32, 2),
    *((u, 4, 32, n) for u in (80, 96, 160, 192, 320, 384, 640) for n in (1, 2, 3, 4, 6, 8)),
    *((u, w, 16, n) for u in (96, 320) for w in (8, 16) for n in (1, 2)),
]
for v in LOOPS:
    case("code", **dict(zip(("u", "w", "elements", "per_sm"), v, strict=False)))(code)


def measure(call, flush):
    call()
    torch.cuda.synchronize()
    cold = []
    for _ in range(9):
        flush.fill_(0)
        b, e = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        b.record()
        call()
        e.record()
        e.synchronize()
        cold.append(b.elapsed_time(e) * 1000)
    b, e = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    b.record()
    for _ in range(20):
        call()
    e.record()
    e.synchronize()
    return statistics.median(cold), b.elapsed_time(e) * 50


if __name__ == "__main__":
    names = list(CASES)
    if sys.argv[1:2] == ["warm"]:
        for name in names[int(sys.argv[2]) :: int(sys.argv[3])]:
            try:
                CASES[name]()()
            except Exception as e:
                print("FAILED", name, str(e)[-300:].replace("\n", " "), file=sys.stderr)
            torch.cuda.synchronize()
        sys.exit()
    print(
        json.dumps(
            {
                "schema": "tilesight.sm-micro/1",
                "date": "2026-11-28",
                "gpu": torch.cuda.get_device_name(),
                "torch": torch.__version__,
                "triton": triton.__version__,
            }
        )
    )
    flush = torch.empty(64 << 20, device="cuda")
    for name in names:
        try:
            cold, warm = measure(CASES[name](), flush)
            print(json.dumps({"case": name, "cold_us": round(cold, 2), "warm_us": round(warm, 2)}), flush=True)
        except Exception as e:
            print(json.dumps({"case": name, "failed": str(e)[-200:]}), flush=True)
