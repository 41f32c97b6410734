"""The kernel: a CTA takes a key tile; one warp group loads the query tiles that see it, two multiply.

A group has 64 keys. Its products are of transposed tiles, S^T = K Q^T and dP^T = V dO^T, so that P^T and dS^T are
operands in registers of dV += P^T dO and dK += dS^T Q. dS goes through shared memory to the other group as well: each
computes a half of dQ = dS K, and TMA adds it to the sum in L2, in the order in which threads hold it.
P is exponentiated under dP, dS computed under dV, and dQ added under dK.
"""

from triton._C.libtriton import ir
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language._core import builtin
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)

from ..flash3.work import FIRST_BARRIER, named_barrier, record

BLOCK_N = 128
"""Keys of a CTA's tile."""
HALF = 64
"""Keys of a consumer group; rows and columns of its part of dQ."""
SLOTS = gl.constexpr(2)
"""Buffers of Q, of dO and of dS."""
REGISTERS = gl.constexpr(240)
"""Of each thread of a consumer group: 64 K an SM, less those of the producer."""


@builtin
def add_by_tma(desc, coord, memory, _semantic=None):
    """Add a box in shared memory to a tensor: Gluon has the operation in 3.6, but no function for it."""
    coord = _semantic._convert_to_ir_values(coord, require_i64=False)
    _semantic.builder.create_async_tma_reduce(ir.DESCRIPTOR_REDUCE_KIND.ADD, desc.handle, coord, memory.handle)


@record
class Shape:
    """What is known of a launch.

    Attributes: group: query heads of a KV head; scale_log2: from scores to log2; tails: whether the last key tile ends
    inside; at_a_time: KV slabs whose key tiles are begun in turn.
    """

    seqlen_q: gl.tensor
    seqlen_k: gl.tensor
    group: gl.tensor
    q_tiles: gl.tensor
    k_tiles: gl.tensor
    scale: gl.tensor
    scale_log2: gl.tensor
    block_m: gl.constexpr
    block_n: gl.constexpr
    half: gl.constexpr
    dim: gl.constexpr
    causal: gl.constexpr
    tails: gl.constexpr
    at_a_time: gl.constexpr

    @gluon.jit
    def place(self):
        """KV slab, and first key of this CTA's tile: some slabs at a time, the first key tiles of all of them first."""
        batch = gl.program_id(0) // (self.k_tiles * self.at_a_time)
        slabs = gl.minimum(gl.num_programs(0) // self.k_tiles - batch * self.at_a_time, self.at_a_time)
        item = gl.program_id(0) - batch * self.k_tiles * self.at_a_time
        return batch * self.at_a_time + item % slabs, item // slabs * self.block_n

    @gluon.jit
    def query_tiles(self, key):
        """First query tile that sees a key tile, and the first from which on no mask is needed."""
        first = self.q_tiles * 0
        whole = first
        if self.causal:
            offset = self.seqlen_k - self.seqlen_q
            last = gl.minimum(key + self.block_n, self.seqlen_k) - 1
            first = gl.maximum(key - offset, 0) // self.block_m
            whole = gl.minimum((gl.maximum(last - offset, 0) + self.block_m - 1) // self.block_m, self.q_tiles)
        if self.tails:
            whole = gl.where(key + self.block_n > self.seqlen_k, self.q_tiles, whole)
        return first, gl.maximum(whole, first)


@record
class Tiles:
    """Tiles in shared memory, and their barriers: K and V, a ring of Q with its rows' numbers, and one of dO."""

    k: gl.shared_memory_descriptor
    v: gl.shared_memory_descriptor
    q: gl.shared_memory_descriptor
    numbers: gl.shared_memory_descriptor
    do: gl.shared_memory_descriptor
    kv_full: gl.shared_memory_descriptor
    q_full: gl.shared_memory_descriptor
    q_empty: gl.shared_memory_descriptor
    do_full: gl.shared_memory_descriptor
    do_empty: gl.shared_memory_descriptor

    @gluon.jit
    def fill_q(self, i, q_desc, numbers_desc, slab, query, number):
        """Copy a tile of Q and the numbers of its rows, once there is room."""
        full = self.q_full.index(i % SLOTS)
        mbarrier.wait(self.q_empty.index(i % SLOTS), ((i // SLOTS) & 1) ^ 1)
        mbarrier.expect(full, q_desc.block_type.nbytes + numbers_desc.block_type.nbytes)
        tma.async_copy_global_to_shared(q_desc, [slab, query, 0], full, self.q.index(i % SLOTS))
        tma.async_copy_global_to_shared(numbers_desc, [number], full, self.numbers.index(i % SLOTS))

    @gluon.jit
    def fill_do(self, i, do_desc, slab, query):
        """Copy a tile of dO, once there is room."""
        full = self.do_full.index(i % SLOTS)
        mbarrier.wait(self.do_empty.index(i % SLOTS), ((i // SLOTS) & 1) ^ 1)
        mbarrier.expect(full, do_desc.block_type.nbytes)
        tma.async_copy_global_to_shared(do_desc, [slab, query, 0], full, self.do.index(i % SLOTS))


@gluon.jit
def narrow(p, dtype: gl.constexpr):
    """P in 16 bits. Of bf16 two by two: the compiler rounds what is widened again one by one, at exponentials' rate."""
    if dtype == gl.bfloat16:
        text: gl.constexpr = "cvt.rn.bf16x2.f32 $0, $2, $1;"
        return gl.inline_asm_elementwise(text, "=r,r,r", [p], dtype=gl.bfloat16, is_pure=True, pack=2)
    return p.to(dtype)


@gluon.jit
def widen(p):
    """P in 32 bits."""
    if p.dtype == gl.bfloat16:
        text: gl.constexpr = "shl.b32 $0, $2, 16; and.b32 $1, $2, 0xffff0000;"
        return gl.inline_asm_elementwise(text, "=r,=r,r", [p], dtype=gl.float32, is_pure=True, pack=2)
    return p.to(gl.float32)


@gluon.jit
def wait(full, i):
    """Wait until buffer i of a ring has been filled."""
    mbarrier.wait(full.index(i % SLOTS), (i // SLOTS) & 1)


@gluon.jit
def flat(box):
    """A box of one slab as a matrix."""
    return box.reshape([box.shape[1], box.shape[2]])


@gluon.jit
def load(shape, tiles, q_desc, do_desc, k_desc, v_desc, numbers_desc):
    """The producer: K and V of the key tile, then Q and dO of the query tiles that see it, for all heads."""
    kv_slab, key = shape.place()
    first, _ = shape.query_tiles(key)
    mbarrier.expect(tiles.kv_full, k_desc.block_type.nbytes + v_desc.block_type.nbytes)
    tma.async_copy_global_to_shared(k_desc, [kv_slab, key, 0], tiles.kv_full, tiles.k)
    tma.async_copy_global_to_shared(v_desc, [kv_slab, key, 0], tiles.kv_full, tiles.v)
    i = 0
    for head in range(shape.group):
        slab = kv_slab * shape.group + head
        for tile in range(first, shape.q_tiles):
            number = (slab * shape.q_tiles + tile) * (2 * shape.block_m)
            tiles.fill_q(i, q_desc, numbers_desc, slab, tile * shape.block_m, number)
            tiles.fill_do(i, do_desc, slab, tile * shape.block_m)
            i += 1


@record
class Group:
    """A consumer group's view. Attributes: ds: memory of dS, dq: of its sum on the way out; place: its number."""

    shape: Shape
    tiles: Tiles
    k: gl.shared_memory_descriptor
    v: gl.shared_memory_descriptor
    ds: gl.shared_memory_descriptor
    dq: gl.shared_memory_descriptor
    place: gl.constexpr
    score_layout: gl.constexpr
    operand_layout: gl.constexpr

    @gluon.jit
    def product(self, keys, queries):
        """Start S^T or dP^T. Args: keys: K or V; queries: Q or dO."""
        zero = gl.zeros((self.shape.half, self.shape.block_m), gl.float32, self.score_layout)
        mine = keys.slice(self.shape.half * self.place, self.shape.half)
        return warpgroup_mma(mine, flat(queries).permute((1, 0)), zero, use_acc=False, is_async=True)

    @gluon.jit
    def number(self, i, which: gl.constexpr):
        """A number for each query: LSE (0) or delta (1)."""
        block: gl.constexpr = self.shape.block_m
        memory = self.tiles.numbers.index(i % SLOTS).slice(which * block, block)
        return memory.load(gl.SliceLayout(0, self.score_layout))[None, :]

    @gluon.jit
    def weights(self, s, i, key, query, masked: gl.constexpr):
        """P^T as an operand. Args: key: first of the group; query: first of the tile."""
        p = gl.exp2(s * self.shape.scale_log2 - self.number(i, 0))
        if masked:
            keys = gl.arange(0, self.shape.half, gl.SliceLayout(1, self.score_layout))
            if self.shape.causal:
                rows = gl.arange(0, self.shape.block_m, gl.SliceLayout(0, self.score_layout))
                ahead = key - (query + self.shape.seqlen_k - self.shape.seqlen_q)
                p = gl.where((keys + ahead)[:, None] <= rows[None, :], p, 0.0)
            if self.shape.tails:
                p = gl.where((keys < self.shape.seqlen_k - key)[:, None], p, 0.0)
        return gl.convert_layout(narrow(p, self.ds.dtype), self.operand_layout, assert_trivial=True)

    @gluon.jit
    def query_gradients(self, i):
        """Start this group's half of dQ: of its columns at D = 128, else of its rows."""
        half: gl.constexpr = self.shape.half
        layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, half, 16])
        zero = gl.zeros((half, half), gl.float32, layout)
        ds, k = self.ds.index(i % SLOTS), self.k
        if self.shape.dim == 128:
            k = k.slice(half * self.place, half, dim=1)
        else:
            ds = ds.slice(half * self.place, half, dim=1)
        return warpgroup_mma(ds.permute((1, 0)), k, zero, use_acc=False, is_async=True)

    @gluon.jit
    def add(self, dq, sum_desc, slab, tile):
        """Add a part of dQ to its sum: four numbers of a thread side by side, then threads, then the next four."""
        part = (slab * self.shape.q_tiles + tile) * 2 + self.place
        memory = self.dq.index(self.place)
        numbers = dq.reshape([4, 2, 8, 8, 4, 2]).permute((3, 0, 2, 4, 1, 5))
        tma.store_wait(0)
        memory.store(numbers.reshape(memory.shape))
        fence_async_shared()
        add_by_tma(sum_desc, [part * memory.shape[0], 0], memory)

    @gluon.jit
    def step(self, i, slab, tile, key, dk, dv, sum_desc, masked: gl.constexpr):
        """A query tile: its part of dK and dV, and the key tile's part of dQ."""
        tiles = self.tiles
        q, do = tiles.q.index(i % SLOTS), tiles.do.index(i % SLOTS)
        wait(tiles.q_full, i)
        s = self.product(self.k, q)
        wait(tiles.do_full, i)
        dp = self.product(self.v, do)
        s = warpgroup_mma_wait(1, deps=(s,))
        p = self.weights(s, i, key, tile * self.shape.block_m, masked)
        dv = warpgroup_mma(p, flat(do), dv, is_async=True)
        dp = warpgroup_mma_wait(1, deps=(dp,))
        # P in 16 bits, as it is multiplied: in 32 it has no room in the registers.
        p = widen(gl.convert_layout(p, self.score_layout, assert_trivial=True))
        ds = (p * (dp - self.number(i, 1))).to(self.ds.dtype)
        self.ds.index(i % SLOTS).slice(self.shape.half * self.place, self.shape.half).store(ds)
        fence_async_shared()
        # Both have stored dS. That of the step before next is in the same place: by then both have waited for this dQ.
        named_barrier("sync", FIRST_BARRIER)
        dq = self.query_gradients(i)
        dk = warpgroup_mma(gl.convert_layout(ds, self.operand_layout, assert_trivial=True), flat(q), dk, is_async=True)
        dq, dv = warpgroup_mma_wait(1, deps=(dq, dv))
        mbarrier.arrive(tiles.do_empty.index(i % SLOTS), count=1)
        self.add(dq, sum_desc, slab, tile)
        dk = warpgroup_mma_wait(0, deps=(dk,))
        mbarrier.arrive(tiles.q_empty.index(i % SLOTS), count=1)
        return dk, dv

    @gluon.jit
    def store(self, dk, dv, dk_desc, dv_desc, kv_slab, key):
        """The key tile's gradients, by way of the memory of K and V."""
        half: gl.constexpr = self.shape.half
        tma.store_wait(0)
        # V's rows of a group are read by it alone, K's by both.
        self.v.slice(half * self.place, half).store(dv.to(self.ds.dtype))
        named_barrier("sync", FIRST_BARRIER)
        self.k.slice(half * self.place, half).store((dk * self.shape.scale).to(self.ds.dtype))
        fence_async_shared()
        named_barrier("sync", FIRST_BARRIER + 1)
        if self.place == 0:
            tma.async_copy_shared_to_global(dv_desc, [kv_slab, key, 0], self.tiles.v)
        else:
            tma.async_copy_shared_to_global(dk_desc, [kv_slab, key, 0], self.tiles.k)
        tma.store_wait(0)


@gluon.jit
def consume(shape, tiles, ds, dq, sum_desc, dk_desc, dv_desc, place: gl.constexpr):
    """A consumer group: 64 keys of the tile."""
    score_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, shape.block_m, 16])
    out_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, shape.dim, 16])
    operand_layout: gl.constexpr = gl.DotOperandLayout(0, out_layout, 2)
    g = Group(  # type: ignore[call-arg]
        shape, tiles, flat(tiles.k), flat(tiles.v), ds, dq, place, score_layout, operand_layout
    )
    kv_slab, tile_key = shape.place()
    key = tile_key + shape.half * place
    first, whole = shape.query_tiles(tile_key)
    dk = gl.zeros((shape.half, shape.dim), gl.float32, out_layout)
    dv = gl.zeros((shape.half, shape.dim), gl.float32, out_layout)
    mbarrier.wait(tiles.kv_full, 0)
    i = 0
    for head in range(shape.group):
        slab = kv_slab * shape.group + head
        if shape.causal or shape.tails:
            for tile in range(first, whole):
                dk, dv = g.step(i, slab, tile, key, dk, dv, sum_desc, True)
                i += 1
        for tile in range(whole, shape.q_tiles):
            dk, dv = g.step(i, slab, tile, key, dk, dv, sum_desc, False)
            i += 1
    g.store(dk, dv, dk_desc, dv_desc, kv_slab, tile_key)


@gluon.jit
def barriers(readers: gl.constexpr):
    """Barriers of a ring. Args: readers: groups that say that they have read a buffer; one for copies."""
    made = gl.allocate_shared_memory(gl.int64, [SLOTS, 1], mbarrier.MBarrierLayout())
    for slot in gl.static_range(SLOTS):
        mbarrier.init(made.index(slot), count=readers)
    return made


@gluon.jit(do_not_specialize=["seqlen_q", "seqlen_k", "group", "q_tiles", "k_tiles"])
def gradients_kernel(
    q_desc, do_desc, k_desc, v_desc, dk_desc, dv_desc, numbers_desc, sum_desc, seqlen_q, seqlen_k, group, q_tiles,
    k_tiles, scale, scale_log2, block_m: gl.constexpr, dim: gl.constexpr, causal: gl.constexpr, tails: gl.constexpr,
    at_a_time: gl.constexpr,
):  # fmt: skip
    """Gradients of a key tile. Shapes: Q, dO (slabs, M, D); K, V, dK, dV (KV slabs, N, D); numbers of rows, sums."""
    dtype: gl.constexpr = q_desc.dtype
    block_n: gl.constexpr = k_desc.block_shape[1]
    shape = Shape(  # type: ignore[call-arg]
        seqlen_q, seqlen_k, group, q_tiles, k_tiles, scale, scale_log2, block_m, block_n, block_n // 2, dim, causal,
        tails, at_a_time,
    )  # fmt: skip
    k = gl.allocate_shared_memory(dtype, k_desc.block_shape, k_desc.layout)
    v = gl.allocate_shared_memory(dtype, v_desc.block_shape, v_desc.layout)
    q = gl.allocate_shared_memory(dtype, [SLOTS] + q_desc.block_shape, q_desc.layout)  # noqa: RUF005
    do = gl.allocate_shared_memory(dtype, [SLOTS] + do_desc.block_shape, do_desc.layout)  # noqa: RUF005
    numbers = gl.allocate_shared_memory(gl.float32, [SLOTS] + numbers_desc.block_shape, numbers_desc.layout)  # noqa: RUF005
    ds = gl.allocate_shared_memory(dtype, [SLOTS, block_n, block_m], gl.NVMMASharedLayout(128, 16, 2))
    dq = gl.allocate_shared_memory(gl.float32, [2] + sum_desc.block_shape, sum_desc.layout)  # noqa: RUF005
    kv_full = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(kv_full, count=1)
    tiles = Tiles(  # type: ignore[call-arg]
        k, v, q, numbers, do, kv_full, barriers(1), barriers(2), barriers(1), barriers(2)
    )
    gl.warp_specialize(
        [
            (load, (shape, tiles, q_desc, do_desc, k_desc, v_desc, numbers_desc)),
            (consume, (shape, tiles, ds, dq, sum_desc, dk_desc, dv_desc, 0)),
            (consume, (shape, tiles, ds, dq, sum_desc, dk_desc, dv_desc, 1)),
        ],
        [4, 4],
        [REGISTERS, REGISTERS],
    )
