"""What kernels of split keys share: a tile of keys and its place in a cache, and the merge of the splits."""

import triton
import triton.language as tl

from ..launch.numbers import LN_2


@triton.jit
def tile_place(
    sequence_ptr, kv_slab, key, most_keys, seqlen_k, kv_heads: tl.constexpr, block_n: tl.constexpr,
    page: tl.constexpr, clipped: tl.constexpr,
):  # fmt: skip
    """Row of a tile of keys in the cache, and the rows of its keys from there, (block_n,).

    Tiles within a page, or without pages, are rows a fixed distance apart: an address of the tile, and constants.
    """
    places = tl.arange(0, block_n)
    if page % block_n != 0:
        keys = key + places
        if clipped:
            numbers = tl.load(sequence_ptr + 1 + keys // page, mask=keys < seqlen_k, other=0)
        else:
            numbers = tl.load(sequence_ptr + 1 + keys // page)
        row, rows = 0, (numbers.to(tl.int64) * page + keys % page) * kv_heads + kv_slab % kv_heads
    elif page:
        number = tl.load(sequence_ptr + 1 + key // page).to(tl.int64)
        row, rows = (number * page + key % page) * kv_heads + kv_slab % kv_heads, places * kv_heads
    else:
        row, rows = kv_slab.to(tl.int64) * most_keys + key, places
    return row, rows


@triton.jit
def flash_decode_merge_kernel(
    o_parts_ptr, lse_parts_ptr, o_ptr, lse_ptr, table_ptr, seqlen_q, splits, heads, table_width,
    head_dim: tl.constexpr, padded_dim: tl.constexpr, head_group: tl.constexpr, padded_splits: tl.constexpr,
):  # fmt: skip
    """O and LSE of a query of a head: the splits' outputs, weighted by 2^LSE. Shapes: as of the kernel above.

    Args: table_ptr: of sequences that have splits of their own, heads: of a sequence; None where all have as many.
    """
    query, slab = tl.program_id(0), tl.program_id(1)
    row = query * head_group + slab % head_group
    parts, dims = tl.arange(0, padded_splits), tl.arange(0, padded_dim)
    place = ((slab // head_group).to(tl.int64) * splits + parts) * (head_group * seqlen_q) + row
    if table_ptr is not None:
        inside = parts < tl.load(table_ptr + slab // heads * table_width)
    else:
        inside = parts < splits
    lse = tl.load(lse_parts_ptr + place, mask=inside, other=float("-inf"))
    inside_tile = inside[:, None] & (dims < head_dim)[None, :]
    o = tl.load(o_parts_ptr + place[:, None] * head_dim + dims[None, :], mask=inside_tile, other=0.0)
    largest = tl.max(lse, 0)
    finite = tl.where(largest == float("-inf"), 0.0, largest)
    weights = tl.exp2(lse - finite)
    total = tl.sum(weights, 0)
    seen = total != 0.0
    divisor = tl.where(seen, total, 1.0)
    merged = tl.sum(o * weights[:, None], 0) / divisor
    at = slab.to(tl.int64) * seqlen_q + query
    tl.store(o_ptr + at * head_dim + dims, merged.to(o_ptr.dtype.element_ty), mask=dims < head_dim)
    tl.store(lse_ptr + at, tl.where(seen, (finite + tl.log2(divisor)) * LN_2, float("-inf")))
