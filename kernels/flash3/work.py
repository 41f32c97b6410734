"""What the warp groups of a CTA share: its list of tiles, the rings in shared memory, and their barriers."""

from typing import Any

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier, tma
from triton.language.core import _aggregate as aggregate

GROUP_ROWS = gl.constexpr(64)
"""Rows of a consumer group: those of a product of a warp group."""
SCALE_KEYS = gl.constexpr(128)
"""Rows of Q, K or V that share a scale in fp8."""
FIRST_BARRIER = gl.constexpr(12)
"""Of the hardware's 16 named barriers Triton takes the first few."""


def record(cls: Any) -> Any:
    """A class of values that kernels pass around, made of them in the order of its annotations."""
    names = tuple(cls.__annotations__)
    fixed = tuple(kind is gl.constexpr for kind in cls.__annotations__.values())

    @gluon.constexpr_function
    def __init__(self, *values):
        for place, value in enumerate(values):
            setattr(self, names[place], gl.constexpr(value) if fixed[place] else value)

    cls.__init__ = __init__
    return aggregate(cls)


@record
class Shape:
    """What is known of a launch.

    Attributes: scale: from scores to log2; inner: of the cap (`tile.cap`); out_scale: of V as a whole; scaled: whether
    blocks of 128 rows have scales; pack: query heads that share a tile;
    queries: of a consumer group; masked: whether a group's first key tile is, tails: those after it; direct: whether O
    is stored from registers.
    """

    tiles_ptr: gl.tensor
    row_entries: gl.tensor
    seqlen_q: gl.tensor
    seqlen_k: gl.tensor
    q_tiles: gl.tensor
    kv_share: gl.tensor
    window: gl.tensor
    scale: gl.tensor
    inner: gl.tensor
    out_scale: gl.tensor
    q_scale_ptr: gl.tensor
    k_scale_ptr: gl.tensor
    v_scale_ptr: gl.tensor
    o_ptr: gl.tensor
    lse_ptr: gl.tensor
    groups: gl.constexpr
    pack: gl.constexpr
    queries: gl.constexpr
    block_n: gl.constexpr
    out_dim: gl.constexpr
    causal: gl.constexpr
    windowed: gl.constexpr
    fp8: gl.constexpr
    scaled: gl.constexpr
    capped: gl.constexpr
    masked: gl.constexpr
    tails: gl.constexpr
    overlap: gl.constexpr
    pingpong: gl.constexpr
    direct: gl.constexpr

    @gluon.jit
    def count(self):
        """Tiles of this CTA."""
        return gl.load(self.tiles_ptr + gl.program_id(0) * self.row_entries)

    @gluon.jit
    def tile(self, place):
        """Slab of Q and first query of the tile at a place of the list."""
        item = gl.load(self.tiles_ptr + gl.program_id(0) * self.row_entries + 1 + place)
        slab = item // self.q_tiles
        return slab, (item - slab * self.q_tiles) * (self.groups * self.queries)

    @gluon.jit
    def key_tiles(self, query):
        """First key tile of a tile of queries, and the end of its key tiles: one at least, if nothing is seen."""
        end_key = self.seqlen_k
        if self.causal:
            end_query = gl.minimum(query + self.groups * self.queries, self.seqlen_q)
            end_key = gl.maximum(end_query + self.seqlen_k - self.seqlen_q, 0)
        end = gl.maximum((end_key + self.block_n - 1) // self.block_n, 1)
        first = end * 0
        if self.windowed:
            seen = gl.maximum(query + 1 + self.seqlen_k - self.seqlen_q - self.window, 0)
            first = gl.minimum(seen // self.block_n, end - 1)
        return first, end

    @gluon.jit
    def masked_tiles(self, query, first, end):
        """Of a group's tiles from the last key down: those after the first that need a mask, and those at the end."""
        tail, head = end * 0, end * 0
        if self.causal:
            last = query + self.seqlen_k - self.seqlen_q
            tail = gl.minimum(end - first, gl.maximum(end - gl.maximum(last + 1, 0) // self.block_n, 1)) - 1
            if self.windowed:
                reach = gl.maximum(last + self.queries - self.window, 0)
                whole = (reach + self.block_n - 1) // self.block_n
                head = gl.minimum(gl.maximum(whole - first, 0), end - first - 1 - tail)
        return tail, head


@record
class Ring:
    """Buffers in shared memory that are filled and emptied in turn: slot i % slots, in round i // slots.

    Attributes: rest: memory of the columns past the first power of two of them, or `memory`, where there are none.
    """

    memory: gl.shared_memory_descriptor
    rest: gl.shared_memory_descriptor
    full: gl.shared_memory_descriptor
    empty: gl.shared_memory_descriptor
    slots: gl.constexpr
    parts: gl.constexpr

    @gluon.jit
    def fill(self, i, desc, rest_desc, slab, row, col):
        """Copy a box into buffer i once it is free."""
        slot = i % self.slots
        full = self.full.index(slot)
        mbarrier.wait(self.empty.index(slot), ((i // self.slots) & 1) ^ 1)
        nbytes: gl.constexpr = desc.block_type.nbytes
        if self.parts == 2:
            mbarrier.expect(full, nbytes + rest_desc.block_type.nbytes)
            tma.async_copy_global_to_shared(rest_desc, [slab, 0, row, desc.block_shape[3]], full, self.rest.index(slot))
        else:
            mbarrier.expect(full, nbytes)
        tma.async_copy_global_to_shared(desc, [slab, 0, row, col], full, self.memory.index(slot))

    @gluon.jit
    def wait(self, i, pred=True):
        """Wait until buffer i has been filled."""
        mbarrier.wait(self.full.index(i % self.slots), (i // self.slots) & 1, pred=pred)

    @gluon.jit
    def release(self, i, pred=True):
        """Say that a group has read buffer i."""
        mbarrier.arrive(self.empty.index(i % self.slots), count=1, pred=pred)

    @gluon.jit
    def matrix(self, i):
        """Buffer i as a matrix."""
        return flat(self.memory.index(i % self.slots))

    @gluon.jit
    def rest_matrix(self, i):
        """Its columns past the first power of two of them."""
        return flat(self.rest.index(i % self.slots))


@gluon.jit
def flat(box):
    """A box of four dimensions in shared memory as a matrix of its rows."""
    return box.reshape([box.shape[0] * box.shape[1] * box.shape[2], box.shape[3]])


@gluon.jit
def ring(desc, rest_desc, slots: gl.constexpr, readers: gl.constexpr, parts: gl.constexpr):
    """A ring of buffers for a descriptor's boxes, each read by so many groups."""
    barriers: gl.constexpr = mbarrier.MBarrierLayout()
    memory = gl.allocate_shared_memory(desc.dtype, [slots] + desc.block_shape, desc.layout)  # noqa: RUF005
    rest = memory
    if parts == 2:
        rest = gl.allocate_shared_memory(desc.dtype, [slots] + rest_desc.block_shape, rest_desc.layout)  # noqa: RUF005
    full = gl.allocate_shared_memory(gl.int64, [slots, 1], barriers)
    empty = gl.allocate_shared_memory(gl.int64, [slots, 1], barriers)
    for slot in gl.static_range(slots):
        mbarrier.init(full.index(slot), count=1)
        mbarrier.init(empty.index(slot), count=readers)
    return Ring(memory, rest, full, empty, slots, parts)  # type: ignore[call-arg]


@gluon.constexpr_function
def _barrier_text(kind, number):
    return f"bar.{kind} {number}, 256; mov.b32 $0, $1;"


@gluon.jit
def named_barrier(kind: gl.constexpr, number: gl.constexpr):
    """`bar.sync` or `bar.arrive` of two groups."""
    threads = gl.full([128], 0, gl.int32, gl.BlockedLayout([1], [32], [4], [0]))
    gl.inline_asm_elementwise(_barrier_text(kind, number), "=r,r", [threads], dtype=gl.int32, is_pure=False, pack=1)
