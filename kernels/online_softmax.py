"""Row softmax in Triton: naive, safe and online, three kernels; the twin of `simulator/schedules/online_softmax.py`.

A CTA takes a strip of rows and passes over it in blocks of columns: once or twice to find the sum, once to write.
Every pass loads the strip again. Within a pass each place of the block has a maximum and a sum of its own;
those of a row are put together once, at the end of the pass.
"""

import torch
import triton
import triton.language as tl

from ..simulator.device.device import Device
from ..simulator.problems.softmax import SoftmaxProblem
from ..simulator.schedules.config import Config
from ..simulator.schedules.registry import find_schedule
from .launch.launch import OPERAND_DTYPES, check_tensor, launches_for, run_all, twin_of

LOWEST = tl.constexpr(-3.4028234663852886e38)
"""The lowest finite fp32 number: a maximum to begin with that, unlike -inf, can be subtracted from -inf."""


@triton.jit
def naive_softmax_kernel(
    x_ptr, y_ptr, seqlen_q, seqlen_k, block_m: tl.constexpr, block_n: tl.constexpr, whole: tl.constexpr,
):  # fmt: skip
    """Two passes, no maximum: exponentials of more than 88 overflow."""
    strip, inside = _strip(seqlen_q, seqlen_k, block_m, block_n)
    partial = tl.zeros((block_m, block_n), tl.float32)
    for col in tl.range(0, seqlen_k, block_n):
        partial += tl.exp(_load(x_ptr + strip + col, inside, col, seqlen_k, block_n, whole))
    _write(x_ptr, y_ptr, strip, inside, tl.zeros((block_m,), tl.float32), tl.sum(partial, 1), seqlen_k, block_n, whole)


@triton.jit
def safe_softmax_kernel(
    x_ptr, y_ptr, seqlen_q, seqlen_k, block_m: tl.constexpr, block_n: tl.constexpr, whole: tl.constexpr,
):  # fmt: skip
    """Three passes: maximum, sum, output."""
    strip, inside = _strip(seqlen_q, seqlen_k, block_m, block_n)
    largest = tl.full((block_m, block_n), LOWEST, tl.float32)
    for col in tl.range(0, seqlen_k, block_n):
        largest = tl.maximum(largest, _load(x_ptr + strip + col, inside, col, seqlen_k, block_n, whole))
    row_max = tl.max(largest, 1)
    partial = tl.zeros((block_m, block_n), tl.float32)
    for col in tl.range(0, seqlen_k, block_n):
        partial += tl.exp(_load(x_ptr + strip + col, inside, col, seqlen_k, block_n, whole) - row_max[:, None])
    _write(x_ptr, y_ptr, strip, inside, row_max, tl.sum(partial, 1), seqlen_k, block_n, whole)


@triton.jit
def online_softmax_kernel(
    x_ptr, y_ptr, seqlen_q, seqlen_k, block_m: tl.constexpr, block_n: tl.constexpr, whole: tl.constexpr,
):  # fmt: skip
    """Two passes: maximum and sum together, a sum rescaled when its maximum grows; then the output."""
    strip, inside = _strip(seqlen_q, seqlen_k, block_m, block_n)
    largest = tl.full((block_m, block_n), LOWEST, tl.float32)
    partial = tl.zeros((block_m, block_n), tl.float32)
    for col in tl.range(0, seqlen_k, block_n):
        x = _load(x_ptr + strip + col, inside, col, seqlen_k, block_n, whole)
        # Either the sum so far or the new term has the larger exponent: only the other needs an exponential.
        smaller = tl.exp(-tl.abs(x - largest))
        partial = tl.where(x > largest, partial * smaller + 1.0, partial + smaller)
        largest = tl.maximum(largest, x)
    row_max = tl.max(largest, 1)
    row_sum = tl.sum(partial * tl.exp(largest - row_max[:, None]), 1)
    _write(x_ptr, y_ptr, strip, inside, row_max, row_sum, seqlen_k, block_n, whole)


@triton.jit
def _strip(seqlen_q, seqlen_k, block_m: tl.constexpr, block_n: tl.constexpr):
    """Offsets of the CTA's first block of columns, and which of its rows there are."""
    strips = tl.cdiv(seqlen_q, block_m)
    slab, row = tl.program_id(0) // strips, (tl.program_id(0) % strips) * block_m
    rows, cols = tl.arange(0, block_m), tl.arange(0, block_n)
    first = (slab.to(tl.int64) * seqlen_q + row) * seqlen_k
    return first + (rows.to(tl.int64)[:, None] * seqlen_k + cols[None, :]), (row + rows < seqlen_q)[:, None]


@triton.jit
def _load(tile_ptr, inside, col, seqlen_k, block_n: tl.constexpr, whole: tl.constexpr):
    """A block in fp32, -inf where there is no element."""
    if whole:
        x = tl.load(tile_ptr)
    else:
        here = inside & (col + tl.arange(0, block_n) < seqlen_k)[None, :]
        x = tl.load(tile_ptr, mask=here, other=float("-inf"))
    return x.to(tl.float32)


@triton.jit
def _write(x_ptr, y_ptr, strip, inside, row_max, row_sum, seqlen_k, block_n: tl.constexpr, whole: tl.constexpr):
    """The last pass, Y = exp(X - maximum) / sum; 0 where the sum is 0."""
    inverse = 1.0 / tl.where(row_sum == 0.0, 1.0, row_sum)
    for col in tl.range(0, seqlen_k, block_n):
        x = _load(x_ptr + strip + col, inside, col, seqlen_k, block_n, whole)
        y = (tl.exp(x - row_max[:, None]) * inverse[:, None]).to(y_ptr.dtype.element_ty)
        if whole:
            tl.store(y_ptr + strip + col, y)
        else:
            here = inside & (col + tl.arange(0, block_n) < seqlen_k)[None, :]
            tl.store(y_ptr + strip + col, y, mask=here)


TWINS = {
    "naive_softmax": twin_of(naive_softmax_kernel),
    "safe_softmax": twin_of(safe_softmax_kernel),
    "online_softmax": twin_of(online_softmax_kernel),
}
LARGEST_SCORES = {"naive": 80.0}
"""Variant -> the largest element that it takes: without a maximum to subtract, exponentials above 88 overflow."""


def online_softmax(
    x: torch.Tensor,
    *,
    variant: str | None = None,
    config: Config | None = None,
    device: Device | str | None = None,
) -> torch.Tensor:
    """Softmax along the last axis.

    A row of -inf alone gives 0. A NaN or +inf makes its whole row NaN.
    `naive` has no maximum to subtract: elements above 88 overflow and give NaN (+inf, too, then only itself),
    the others of their row 0; and rows whose exponentials all underflow (elements below -103) give 0.

    Args:
        x: (batch, heads, M, N), contiguous, fp16, bf16 or fp32, on one GPU.
        variant: naive, safe or online; that of the configuration where None (online, unless it says otherwise).
        config: rows and columns of a block, warps; the schedule's default where None.
        device: catalogue name or `Device` for the schedule; that of the tensor where None.

    Returns:
        Y in the shape and dtype of x.

    Raises:
        ValueError: a tensor, variant or configuration that the kernels cannot take; one line.
    """
    check_tensor("x", x, "(batch, heads, M, N)")
    batch, heads, seqlen_q, seqlen_k = x.shape
    problem = SoftmaxProblem(
        batch=batch,
        heads=heads,
        seqlen_q=seqlen_q,
        seqlen_k=seqlen_k,
        dtype=next(name for name, value in OPERAND_DTYPES.items() if value == x.dtype),
    )
    chosen = config or find_schedule("online_softmax").default
    if variant is not None:
        chosen = chosen.but(softmax_variant=variant)
    tensors = {"X": x}
    run_all(launches_for("online_softmax", problem, chosen, device, x), TWINS, tensors)
    return tensors["Y"].view(x.shape)
