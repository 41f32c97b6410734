"""Small Triton kernels that measuring needs: reading the SMs' clocks, emptying L2, doing nothing."""

import triton
import triton.language as tl

FLUSH_ELEMENTS = 8192
"""32-bit elements that a CTA of the flush writes."""
DISCARD_ELEMENTS = 32
"""32-bit elements of what one instruction discards: 128 bytes."""


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
def overwrite_kernel(buffer_ptr, elements: tl.constexpr):
    """Write zeros to a slice of a buffer: what L2 held before is evicted, however often it was read."""
    start = tl.program_id(0).to(tl.int64) * elements
    tl.store(buffer_ptr + start + tl.arange(0, elements), tl.zeros((elements,), tl.int32))


@triton.jit
def discard_kernel(buffer_ptr, elements: tl.constexpr, step: tl.constexpr):
    """Drop a slice of a buffer from L2 without writing it back; its content is lost."""
    start = tl.program_id(0).to(tl.int64) * elements
    lines = buffer_ptr + start + tl.arange(0, elements // step) * step
    tl.inline_asm_elementwise(
        "discard.global.L2 [$1], 128; mov.u32 $0, 0;", "=r,l", args=[lines], dtype=tl.int32, is_pure=False, pack=1
    )


@triton.jit
def nothing_kernel(out_ptr, count):
    """Return at once."""
    pass
