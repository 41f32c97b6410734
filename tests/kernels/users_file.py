"""A file as a user of `predict` might write: launches that are predicted, refused, or never made."""

DOUBLE = """
import torch
import triton
import triton.language as tl


@triton.jit
def double(X, Y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(Y + i, tl.load(X + i, mask=i < n) * 2, mask=i < n)
"""
"""What each user's file begins with: imports, and a kernel."""
FILE = (
    DOUBLE
    + """

@triton.autotune([triton.Config({"BLOCK": size}) for size in (256, 1024)], key=["n"])
@triton.heuristics({"EVEN": lambda given: given["n"] % given["BLOCK"] == 0})
@triton.jit
def tuned(X, Y, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(Y + i, tl.load(X + i) * 2)


@triton.jit
def gather(X, IDS, Y, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(Y + i, tl.load(X + tl.load(IDS + i)))


@triton.jit
def sum_of(X, Y, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(Y + tl.program_id(0), tl.sum(tl.load(X + i), 0))


def run():
    print("what the user prints")
    x = torch.empty(1 << 20, device="cuda")
    assert x.is_cuda and torch.cuda.get_device_properties(0).multi_processor_count > 100
    y = torch.empty_like(x)
    double[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, y, x.numel(), BLOCK=1024)
    double[(1024,)](y, x, x.numel(), BLOCK=1024)


def tune():
    x = torch.empty(1 << 20, device="meta")
    tuned[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, torch.empty_like(x), x.numel())


@triton.autotune([triton.Config({"BLOCK": size}, num_warps=8) for size in (64, 128)], key=[])
@triton.jit
def products(X, Y, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    square = i[:, None] * BLOCK + i[None, :]
    x = tl.load(X + square)
    tl.store(Y + square, tl.dot(x, tl.dot(x, x).to(tl.float16)).to(tl.float16))


def too_large():
    x = torch.empty(1 << 20, device="meta", dtype=torch.float16)
    products[(4,)](x, torch.empty_like(x))


def by_device():
    x = torch.empty(1 << 20, device="cuda")
    for _ in range(torch.cuda.get_device_capability()[0] - 7):
        double[(1024,)](x, x, x.numel(), BLOCK=1024)


def typed():
    x = torch.empty(1024, device="meta")
    double[(1,)](x, "a text", 1024, BLOCK=1024)


def endless():
    while True:
        pass


def dies():
    import os

    os._exit(3)


def unknown():
    x = torch.empty(1024, device="meta")
    gather[(4,)](x, torch.empty(1024, dtype=torch.int32, device="meta"), torch.empty_like(x), BLOCK=256)


def beyond():
    sum_of[(5,)](torch.empty(1200, device="meta"), torch.empty(5, device="meta"), BLOCK=256)


def nothing():
    pass


def needs(something):
    pass


def raises():
    raise KeyError("of my own")


@triton.jit
def rows_by_descriptor(X, IDS, Y, BLOCK: tl.constexpr):
    j = tl.arange(0, 32)
    rows = X.gather(tl.load(IDS + j), 0)
    tl.store(Y + j[:, None] * BLOCK + tl.arange(0, BLOCK)[None, :], rows)


def gathers():
    from triton.tools.tensor_descriptor import TensorDescriptor
    x, y = (torch.empty(64, 64, device="meta", dtype=torch.float16) for _ in range(2))
    boxes = TensorDescriptor.from_tensor(x, [1, 64])
    rows_by_descriptor[(1,)](boxes, torch.arange(32, dtype=torch.int32), y, BLOCK=64)
"""
)
