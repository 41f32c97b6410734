"""Small Triton kernels that measuring needs: reading the SMs' clocks, flushing L2 by reads, doing nothing."""

import triton
import triton.language as tl

FLUSH_ELEMENTS = 8192
"""32-bit elements that a CTA of the flush reads."""
NEVER = tl.constexpr(-1_234_567_891)
"""A sum that a buffer of zeros does not have."""


@triton.jit
def read_clock_kernel(out_ptr):
    """Note (SM number, SM cycles, time in ns) of each CTA: out is int64 of shape (CTAs, 3)."""
    sm, cycles, time_ns = tl.inline_asm_elementwise(
        "mov.u32 $0, %smid; mov.u64 $1, %clock64; mov.u64 $2, %globaltimer;",
        "=r,=l,=l",
        args=[],
        dtype=(tl.int32, tl.int64, tl.int64),
        is_pure=False,
        pack=1,
    )
    row_ptr = out_ptr + tl.program_id(0) * 3
    tl.store(row_ptr, sm.to(tl.int64))
    tl.store(row_ptr + 1, cycles)
    tl.store(row_ptr + 2, time_ns)


@triton.jit
def flush_kernel(buffer_ptr, out_ptr, elements: tl.constexpr):
    """Read a slice of a buffer of zeros and write nothing: L2's old content is evicted, and no line is left dirty."""
    start = tl.program_id(0).to(tl.int64) * elements
    total = tl.sum(tl.load(buffer_ptr + start + tl.arange(0, elements)), 0)
    tl.store(out_ptr, total, mask=total == NEVER)


@triton.jit
def nothing_kernel(out_ptr, count):
    """Return at once."""
    pass
