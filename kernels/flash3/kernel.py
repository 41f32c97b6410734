"""The kernel: a warp group that loads, and groups of 64 rows that multiply, exponentiate and store.

A consumer group starts Q K of a tile, then P V of the tile before it, and exponentiates while the second runs.
Its tiles follow each other without a pause: Q K of the next tile starts before the last P V of this one.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)

from .tile import FP8_LOG2, begin, cap, column, go_on, hide, narrowed
from .work import FIRST_BARRIER, GROUP_ROWS, SCALE_KEYS, Ring, Shape, flat, named_barrier, record, ring

LN_2 = gl.constexpr(0.6931471805599453)


@record
class Group:
    """A consumer group's view. Attributes: place: its number."""

    shape: Shape
    q: Ring
    k: Ring
    v: Ring
    place: gl.constexpr
    score_layout: gl.constexpr
    out_layout: gl.constexpr
    operand_layout: gl.constexpr

    @gluon.jit
    def take_turn(self):
        """Wait until the group before this one has issued its products."""
        if self.shape.pingpong:
            named_barrier("sync", FIRST_BARRIER + self.place)

    @gluon.jit
    def pass_turn(self):
        """Let the group after this one issue its own."""
        if self.shape.pingpong:
            named_barrier("arrive", FIRST_BARRIER + (self.place + 1) % self.shape.groups)

    @gluon.jit
    def scores(self, buffer, i):
        """Start Q K of key tile i. Args: buffer: of Q."""
        zero = gl.zeros((GROUP_ROWS, self.shape.block_n), gl.float32, self.score_layout)
        s = warpgroup_mma(self.q.matrix(buffer), self.k.matrix(i).permute((1, 0)), zero, use_acc=False, is_async=True)
        if self.k.parts == 2:
            s = warpgroup_mma(self.q.rest_matrix(buffer), self.k.rest_matrix(i).permute((1, 0)), s, is_async=True)
        return s

    @gluon.jit
    def values(self, p, i, acc):
        """Start P V of key tile i. In fp8 V is transposed."""
        self.v.wait(i)
        v = self.v.matrix(i)
        if self.shape.fp8:
            v = v.permute((1, 0))
            p = narrowed(p)
        return warpgroup_mma(p, v, acc, is_async=True)

    @gluon.jit
    def rows(self):
        """Query of each row, from the first of the group on."""
        return gl.arange(0, GROUP_ROWS, gl.SliceLayout(1, self.score_layout)) % self.shape.queries

    @gluon.jit
    def hidden(self, s, query, tile, factor, masked: gl.constexpr):
        """Scores with cap and mask. Args: factor: to log2, or to what is capped."""
        if self.shape.capped:
            s = cap(s, column(factor))
        if masked:
            cols = gl.arange(0, self.shape.block_n, gl.SliceLayout(0, self.score_layout))
            last = query + self.shape.seqlen_k - self.shape.seqlen_q
            s = hide(
                s, self.rows(), cols, last, self.shape.seqlen_k, tile * self.shape.block_n, self.shape.window,
                self.shape.causal, self.shape.windowed,
            )  # fmt: skip
        return s

    @gluon.jit
    def kv_scales(self, slab, tile):
        """Scales of a tile of K and V where blocks have them; else numbers that nothing reads."""
        if self.shape.scaled:
            blocks = (self.shape.seqlen_k + SCALE_KEYS - 1) // SCALE_KEYS
            place = slab // self.shape.kv_share * blocks + tile * self.shape.block_n // SCALE_KEYS
            return gl.load(self.shape.k_scale_ptr + place), gl.load(self.shape.v_scale_ptr + place)
        else:
            return self.shape.scale, self.shape.scale

    @gluon.jit
    def factor(self, row_scale, k_scale):
        """From scores to log2, or to what is capped."""
        if self.shape.scaled:
            row_scale = row_scale * k_scale
        return row_scale

    @gluon.jit
    def log2_factor(self, factor):
        """From scores, which may be capped, to log2. Args: factor: of `factor`."""
        if self.shape.capped:
            factor = self.shape.scale
        return factor

    @gluon.jit
    def step(self, i, buffer, query, slab, tile, row_scale, scales, row_max, sums, p, acc, masked: gl.constexpr):
        """Q K of key tile i and P V of tile i - 1, the softmax of i under the latter.

        Args: scales: of V of tile i - 1, and of K and V of tile i, which are loaded a step ahead.
        """
        v_scale, k_scale, new_scale = scales
        next_k_scale, next_v_scale = self.kv_scales(slab, gl.maximum(tile - 1, 0))
        self.k.wait(i)
        self.take_turn()
        s = self.scores(buffer, i)
        acc = self.values(p, i - 1, acc)
        self.pass_turn()
        if self.shape.overlap:
            s = warpgroup_mma_wait(1, deps=(s,))
        else:
            s = warpgroup_mma_wait(0, deps=(s,))
        self.k.release(i)
        factor = self.factor(row_scale, k_scale)
        s = self.hidden(s, query, tile, factor, masked)
        row_max, sums, p, alpha = go_on(
            s, row_max, sums, self.log2_factor(factor), self.shape.fp8, self.operand_layout, self.v.memory.dtype
        )
        acc = warpgroup_mma_wait(0, deps=(acc,))
        self.v.release(i - 1)
        if self.shape.scaled:
            # O is kept in units of the last tile's scale.
            alpha = alpha * (v_scale / new_scale)
        acc = acc * gl.convert_layout(alpha, gl.SliceLayout(1, self.out_layout))[:, None]
        return (new_scale, next_k_scale, next_v_scale), row_max, sums, p, acc


@gluon.jit
def load(shape, q, k, v, q_desc, q_rest, k_desc, k_rest, v_desc):
    """The producer: Q of each tile by groups, K and V of its key tiles from the last down."""
    i = 0
    for r in range(shape.count()):
        slab, query = shape.tile(r)
        first, end = shape.key_tiles(query)
        kv_slab = slab // shape.kv_share
        q.fill(r * shape.groups, q_desc, q_rest, slab, query, 0)
        for j in range(end - first):
            key = (end - 1 - j) * shape.block_n
            k.fill(i, k_desc, k_rest, kv_slab, key, 0)
            if j == 0:
                for place in gl.static_range(1, shape.groups):
                    q.fill(r * shape.groups + place, q_desc, q_rest, slab, query + place * shape.queries, 0)
            if shape.fp8:
                v.fill(i, v_desc, v_desc, kv_slab, 0, key)
            else:
                v.fill(i, v_desc, v_desc, kv_slab, key, 0)
            i += 1


@gluon.jit
def row_scales(g, slab, query):
    """Factor from scores to log2, or to what is capped: of each row where blocks have scales, else one for all."""
    shape = g.shape
    factor = shape.inner if shape.capped else shape.scale
    if shape.scaled:
        blocks = (shape.seqlen_q + SCALE_KEYS - 1) // SCALE_KEYS
        rows = gl.arange(0, GROUP_ROWS, gl.SliceLayout(1, g.score_layout))
        block = gl.minimum((query + rows % shape.queries) // SCALE_KEYS, blocks - 1)
        return gl.load(shape.q_scale_ptr + (slab * shape.pack + rows // shape.queries) * blocks + block) * factor
    else:
        return factor


@gluon.jit
def consume(shape, q, k, v, o, o_desc, place: gl.constexpr):
    """A consumer group: 64 rows of each tile of the list."""
    depth: gl.constexpr = 32 if shape.fp8 else 16
    score_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, shape.block_n, depth])
    out_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, shape.out_dim, depth])
    operand_layout: gl.constexpr = gl.DotOperandLayout(0, out_layout, 4 if shape.fp8 else 2)
    g = Group(shape, q, k, v, place, score_layout, out_layout, operand_layout)  # type: ignore[call-arg]
    groups: gl.constexpr = shape.groups
    dtype: gl.constexpr = v.memory.dtype
    count = shape.count()
    if place == groups - 1:
        g.pass_turn()
    slab, query = shape.tile(0)
    query += place * shape.queries
    _, end = shape.key_tiles(query - place * shape.queries)
    row_scale = row_scales(g, slab, query)
    k_scale, v_scale = g.kv_scales(slab, end - 1)
    q.wait(place)
    k.wait(0)
    g.take_turn()
    s = g.scores(place, 0)
    g.pass_turn()
    s = warpgroup_mma_wait(0, deps=(s,))
    k.release(0)
    factor = g.factor(row_scale, k_scale)
    s = g.hidden(s, query, end - 1, factor, shape.masked)
    row_max, sums, p = begin(s, g.log2_factor(factor), shape.fp8, operand_layout, dtype)
    acc = gl.zeros((GROUP_ROWS, shape.out_dim), gl.float32, out_layout)
    i = 1
    for r in range(count):
        buffer = r * groups + place
        # Not carried from the lines below that compute the same: what feeds nothing but bounds of inner loops keeps its
        # first value in Triton 3.6 (findings/), and groups then wait for tiles that are never loaded.
        first, end = shape.key_tiles(query - place * shape.queries)
        tail, head = shape.masked_tiles(query, first, end)
        tile = end - 2
        next_k_scale, next_v_scale = g.kv_scales(slab, gl.maximum(tile, 0))
        scales = (v_scale, next_k_scale, next_v_scale)
        if shape.tails:
            for _ in range(tail):
                scales, row_max, sums, p, acc = g.step(
                    i, buffer, query, slab, tile, row_scale, scales, row_max, sums, p, acc, True
                )
                i += 1
                tile -= 1
        for _ in range(tile + 1 - first - head):
            scales, row_max, sums, p, acc = g.step(
                i, buffer, query, slab, tile, row_scale, scales, row_max, sums, p, acc, False
            )
            i += 1
            tile -= 1
        if shape.windowed:
            for _ in range(head):
                scales, row_max, sums, p, acc = g.step(
                    i, buffer, query, slab, tile, row_scale, scales, row_max, sums, p, acc, True
                )
                i += 1
                tile -= 1
        q.release(buffer)
        # The next tile's first scores, and this one's last P V. After the last tile the next is made up from what lies
        # in shared memory, and thrown away: a branch would have the compiler wait for all products.
        more = r + 1 < count
        this_slab, this_query = slab, query
        slab, query = shape.tile(r + 1)
        _, end = shape.key_tiles(query)
        query += place * shape.queries
        row_scale = row_scales(g, slab, query)
        k_scale, new_scale = g.kv_scales(slab, end - 1)
        q.wait(buffer + groups, more)
        k.wait(i, more)
        g.take_turn()
        s = g.scores(buffer + groups, i)
        acc = g.values(p, i - 1, acc)
        g.pass_turn()
        if shape.overlap:
            s = warpgroup_mma_wait(1, deps=(s,))
        else:
            s = warpgroup_mma_wait(0, deps=(s,))
        k.release(i, more)
        this_max, this_sums = row_max, sums
        factor = g.factor(row_scale, k_scale)
        s = g.hidden(s, query, end - 1, factor, shape.masked)
        row_max, sums, p = begin(s, g.log2_factor(factor), shape.fp8, operand_layout, dtype)
        acc = warpgroup_mma_wait(0, deps=(acc,))
        v.release(i - 1)
        store(g, o, o_desc, this_slab, this_query, acc, this_max, this_sums, scales[0])
        v_scale = new_scale
        acc = gl.zeros((GROUP_ROWS, shape.out_dim), gl.float32, out_layout)
        i += 1
    tma.store_wait(0)


@gluon.jit
def store(g, o, o_desc, slab, query, acc, row_max, sums, v_scale):
    """O and LSE of a group's rows. Rows that see no key have the sum 0: O is 0, LSE -inf. A NaN is not 0, and stays."""
    shape = g.shape
    total = gl.convert_layout(gl.sum(sums, 1), gl.SliceLayout(1, g.score_layout))
    seen = total != 0.0
    divisor = gl.where(seen, total, 1.0)
    if shape.fp8:
        row_max = row_max - FP8_LOG2
    if shape.scaled:
        inverse = v_scale / divisor
    else:
        inverse = shape.out_scale / divisor
    lse = gl.where(seen, (row_max + gl.log2(divisor)) * LN_2, -float("inf"))
    rows = gl.arange(0, GROUP_ROWS, gl.SliceLayout(1, g.score_layout))
    queries = query + rows % shape.queries
    head = slab * shape.pack + rows // shape.queries
    gl.store(shape.lse_ptr + head.to(gl.int64) * shape.seqlen_q + queries, lse, mask=queries < shape.seqlen_q)
    acc = acc * gl.convert_layout(inverse, gl.SliceLayout(1, g.out_layout))[:, None]
    if shape.direct:
        rows = gl.arange(0, GROUP_ROWS, gl.SliceLayout(1, g.out_layout))
        cols = gl.arange(0, shape.out_dim, gl.SliceLayout(0, g.out_layout))
        queries = query + rows % shape.queries
        row = (slab * shape.pack + rows // shape.queries).to(gl.int64) * shape.seqlen_q + queries
        pointers = shape.o_ptr + (row * shape.out_dim)[:, None] + cols[None, :]
        gl.store(pointers, acc.to(shape.o_ptr.dtype.element_ty), mask=(queries < shape.seqlen_q)[:, None])
    else:
        memory = o.index(g.place)
        tma.store_wait(0)
        flat(memory).store(acc.to(o_desc.dtype))
        fence_async_shared()
        tma.async_copy_shared_to_global(o_desc, [slab, 0, query, 0], memory)


@gluon.jit(
    do_not_specialize=["row_entries", "seqlen_q", "seqlen_k", "q_tiles", "kv_share", "window"],
)
def flash3_kernel(
    q_desc, q_rest, k_desc, k_rest, v_desc, o_desc, o_ptr, lse_ptr, q_scale_ptr, k_scale_ptr, v_scale_ptr, tiles_ptr,
    row_entries, seqlen_q, seqlen_k, q_tiles, kv_share, window, scale, inner, out_scale,
    groups: gl.constexpr, pack: gl.constexpr, block_n: gl.constexpr, out_dim: gl.constexpr, parts: gl.constexpr,
    q_slots: gl.constexpr, stages: gl.constexpr, registers: gl.constexpr, causal: gl.constexpr, windowed: gl.constexpr,
    fp8: gl.constexpr, scaled: gl.constexpr, capped: gl.constexpr, masked: gl.constexpr, tails: gl.constexpr,
    overlap: gl.constexpr, pingpong: gl.constexpr, direct: gl.constexpr,
):  # fmt: skip
    """All tiles of a CTA. Shapes: Q (slabs, pack, M, D), K (KV slabs, 1, N, D), V alike, in fp8 (KV slabs, 1, D, N)."""
    shape = Shape(  # type: ignore[call-arg]
        tiles_ptr, row_entries, seqlen_q, seqlen_k, q_tiles, kv_share, window, scale, inner, out_scale,
        q_scale_ptr, k_scale_ptr, v_scale_ptr, o_ptr, lse_ptr, groups, pack, GROUP_ROWS // pack, block_n, out_dim,
        causal, windowed, fp8, scaled, capped, masked, tails, overlap, pingpong, direct,
    )  # fmt: skip
    q = ring(q_desc, q_rest, q_slots * groups, 1, parts)
    k = ring(k_desc, k_rest, stages, groups, parts)
    v = ring(v_desc, v_desc, stages, groups, 1)
    if direct:
        o = q.memory
    else:
        o = gl.allocate_shared_memory(o_desc.dtype, [groups] + o_desc.block_shape, o_desc.layout)  # noqa: RUF005
    loading = (shape, q, k, v, q_desc, q_rest, k_desc, k_rest, v_desc)
    if groups == 2:
        gl.warp_specialize(
            [
                (load, loading),
                (consume, (shape, q, k, v, o, o_desc, 0)),
                (consume, (shape, q, k, v, o, o_desc, 1)),
            ],
            [4, 4],
            [registers, registers],
        )
    else:
        gl.warp_specialize(
            [
                (load, loading),
                (consume, (shape, q, k, v, o, o_desc, 0)),
                (consume, (shape, q, k, v, o, o_desc, 1)),
                (consume, (shape, q, k, v, o, o_desc, 2)),
            ],
            [4, 4, 4],
            [registers, registers, registers],
        )
