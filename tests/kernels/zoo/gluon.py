"""Kernels written in Gluon: with layouts, shared memory, copies by TMA and products of warp groups (sm_90)."""

# mypy: disable-error-code="attr-defined"
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)


@gluon.jit
def copied(X, Y, n, BLOCK: gl.constexpr):
    """Four elements a thread."""
    layout: gl.constexpr = gl.BlockedLayout([4], [32], [4], [0])
    i = gl.program_id(0) * BLOCK + gl.arange(0, BLOCK, layout=layout)
    gl.store(Y + i, gl.load(X + i, mask=i < n), mask=i < n)


@gluon.jit
def transposed(X, Y, n, B: gl.constexpr):
    """A tile through shared memory."""
    rows: gl.constexpr = gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0])
    shared: gl.constexpr = gl.SwizzledSharedLayout(vec=4, per_phase=1, max_phase=8, order=[1, 0])
    i, j = gl.arange(0, B, layout=gl.SliceLayout(1, rows)), gl.arange(0, B, layout=gl.SliceLayout(0, rows))
    x, y = gl.program_id(0) * B, gl.program_id(1) * B
    tile = gl.allocate_shared_memory(gl.float32, [B, B], shared, gl.load(X + (x + i)[:, None] * n + (y + j)[None, :]))
    gl.store(Y + (y + i)[:, None] * n + (x + j)[None, :], tile.permute((1, 0)).load(rows))


@gluon.jit
def product(A, B, C, K, num_warps: gl.constexpr):
    """A tile of C = A B: copies by TMA, a barrier in shared memory, products of a warp group."""
    BM: gl.constexpr = A.block_type.shape[0]
    BK: gl.constexpr = A.block_type.shape[1]
    BN: gl.constexpr = B.block_type.shape[1]
    a = gl.allocate_shared_memory(A.dtype, A.block_type.shape, A.layout)
    b = gl.allocate_shared_memory(B.dtype, B.block_type.shape, B.layout)
    c = gl.allocate_shared_memory(C.dtype, C.block_type.shape, C.layout)
    m, n = gl.program_id(0) * BM, gl.program_id(1) * BN
    arrived = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(arrived, count=1)
    phase = 0
    layout: gl.constexpr = gl.NVMMADistributedLayout(
        version=[3, 0], warps_per_cta=[num_warps, 1], instr_shape=[16, BN, 16]
    )
    total = gl.zeros((BM, BN), dtype=gl.float32, layout=layout)
    for k in range(0, K, BK):
        mbarrier.expect(arrived, A.block_type.nbytes + B.block_type.nbytes)
        tma.async_copy_global_to_shared(A, [m, k], arrived, a)
        tma.async_copy_global_to_shared(B, [k, n], arrived, b)
        mbarrier.wait(arrived, phase=phase)
        phase ^= 1
        total = warpgroup_mma(a, b, total, is_async=True)
        total = warpgroup_mma_wait(num_outstanding=0, deps=(total,))
    mbarrier.invalidate(arrived)
    c.store(total.to(C.dtype))
    fence_async_shared()
    tma.async_copy_shared_to_global(C, [m, n], c)
    tma.store_wait(pendings=0)


@gluon.jit
def _fill_ring(X, TILES, ring, full, empty, R: gl.constexpr):
    i = 0
    for t in range(gl.program_id(0), TILES, gl.num_programs(0)):
        slot = i % 2
        mbarrier.wait(empty.index(slot), ((i // 2) & 1) ^ 1)
        mbarrier.expect(full.index(slot), X.block_type.nbytes)
        tma.async_copy_global_to_shared(X, [t * R, 0], full.index(slot), ring.index(slot))
        i += 1  # noqa: SIM113


@gluon.jit
def _drain_ring(Y, TILES, ring, out, full, empty, R: gl.constexpr, D: gl.constexpr, PART: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    i = 0
    for t in range(gl.program_id(0), TILES, gl.num_programs(0)):
        slot = i % 2
        mbarrier.wait(full.index(slot), (i // 2) & 1)
        x = ring.index(slot).load(layout)
        mbarrier.arrive(empty.index(slot), count=1)
        tma.store_wait(0)
        out.index(PART).store(x)
        fence_async_shared()
        tma.async_copy_shared_to_global(Y, [(2 * t + PART) * R, 0], out.index(PART))
        i += 1  # noqa: SIM113
    tma.store_wait(0)


@gluon.jit
def _drain_first(Y, TILES, ring, out, full, empty, R: gl.constexpr, D: gl.constexpr):
    _drain_ring(Y, TILES, ring, out, full, empty, R, D, 0)


@gluon.jit
def _drain_second(Y, TILES, ring, out, full, empty, R: gl.constexpr, D: gl.constexpr):
    _drain_ring(Y, TILES, ring, out, full, empty, R, D, 1)


@gluon.jit
def doubled(X, Y, TILES, R: gl.constexpr, D: gl.constexpr, num_warps: gl.constexpr):
    """Each tile of X twice into Y: warps that load, and two groups that store, by a ring of two slots."""
    ring = gl.allocate_shared_memory(X.dtype, [2, R, D], X.layout)
    out = gl.allocate_shared_memory(X.dtype, [2, R, D], X.layout)
    barrier: gl.constexpr = mbarrier.MBarrierLayout()
    full = gl.allocate_shared_memory(gl.int64, [2, 1], barrier)
    empty = gl.allocate_shared_memory(gl.int64, [2, 1], barrier)
    for slot in gl.static_range(2):
        mbarrier.init(full.index(slot), count=1)
        mbarrier.init(empty.index(slot), count=2)
    gl.warp_specialize(
        [
            (_fill_ring, (X, TILES, ring, full, empty, R)),
            (_drain_first, (Y, TILES, ring, out, full, empty, R, D)),
            (_drain_second, (Y, TILES, ring, out, full, empty, R, D)),
        ],
        [4, 4],
        [96, 96],
    )
