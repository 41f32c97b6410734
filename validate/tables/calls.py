"""What rows of attention and of collectives should take: the operations of a measured call, and its least time.

Attention: a write to pages of a cache and the attention over them, in a graph of one call. Calls follow each other on
the same tensors, so L2 keeps keys and values that fit into it. Collectives: `torch.distributed`'s call, alone on the
links of its GPUs.
"""

from ...simulator.device.device import Device
from ...simulator.operations.families.collectives import RANKS
from ...simulator.operations.operation import Operand, Operation
from .rows import COLLECTIVE_ITEM_BYTES, TableRow

ATTENTION_CALLS = {
    **dict.fromkeys(("vllm_flash_attn", "vllm_flash_attn_fa2"), "_vllm_fa2_C::varlen_fwd"),
    "vllm_flash_attn_fa3": "_vllm_fa3_C::fwd",
    "vllm_flashinfer_trtllmprefill": "flashinfer::trtllm_batch_context_with_kv_cache",
    "vllm_flashinfer_trtllmdecode": "flashinfer::trtllm_batch_decode_with_kv_cache",
}
"""Kernel source -> operation."""
PAGE = 16
"""Tokens of a page: vLLM's default."""
ITEM = 2
QUERY, OUTPUT, KEYS, VALUES, NEW_KEYS, NEW_VALUES, TABLE = range(1, 8)
"""Storages of attention."""
COLLECTIVE_CALLS = {
    "all_reduce": "c10d::allreduce_",
    "all_gather": "c10d::_allgather_base_",
    "reduce_scatter": "c10d::_reduce_scatter_base_",
    "alltoall": "c10d::alltoall_base_",
}
"""Operation of the table -> torch's."""
DATA, RESULT = 1, 2
"""Storages of a collective."""


def attention_call(row: TableRow) -> list[Operation]:
    """The operations of a call; none: its kernels have no price."""
    name = ATTENTION_CALLS.get(row.source)
    if not name or row.dtype != "bfloat16":
        return []
    batch, heads, length, key_heads, dim, window = row.sizes.values()
    queries = 1 if row.kind == "decode" else length
    tokens, pages = batch * queries, batch * -(-length // PAGE)
    query, output = (_tensor(storage, tokens, heads, dim) for storage in (QUERY, OUTPUT))
    page = (key_heads, PAGE, dim) if name.startswith("flashinfer") else (PAGE, key_heads, dim)
    caches = tuple(_tensor(storage, pages, *page) for storage in (KEYS, VALUES))
    new = tuple(_tensor(storage, tokens, key_heads, dim) for storage in (NEW_KEYS, NEW_VALUES))
    table = _tensor(TABLE, batch, pages // batch, dtype="int32")
    said = {"max_seqlen_q": queries, "max_seqlen_k": length, "is_causal": True, "window_size_left": window - 1}
    return [
        Operation(kind="torch", name="_C_cache_ops::reshape_and_cache_flash", inputs=(*new, *caches), outputs=caches),
        Operation(
            kind="torch",
            name=name,
            inputs=(query, *caches, table),
            outputs=(output,),
            arguments=said,
        ),
    ]


def attention_bounds(row: TableRow, device: Device) -> tuple[float, float]:
    """FLOP or bytes at the peaks, and with keys and values from L2 as far as it has room [s]."""
    batch, heads, length, key_heads, dim, window = row.sizes.values()
    queries = 1 if row.kind == "decode" else length
    seen = min(window or length, length)
    # The first `seen` queries of a prompt see fewer.
    pairs = queries * seen - (seen * (seen - 1) // 2 if queries > 1 else 0)
    rate = device.fastest_of_kind("fp16") * device.sms * device.boost_clock_hz
    flop_s = 4.0 * batch * heads * dim * pairs / rate
    cached = 2.0 * ITEM * batch * key_heads * dim * min(length, seen + queries)
    moved = cached + 2.0 * ITEM * batch * queries * heads * dim
    least = max(cached - device.l2_bytes, 0.0)
    return max(flop_s, moved / device.hbm_peak_bytes_per_s), max(flop_s, least / device.hbm_peak_bytes_per_s)


def _tensor(storage: int, *shape: int, dtype: str = "bfloat16") -> Operand:
    strides = [1]
    for size in shape[:0:-1]:
        strides.insert(0, strides[0] * size)
    size = strides[0] * shape[0] * (ITEM if dtype == "bfloat16" else 4)
    return Operand(storage=storage, storage_bytes=size, shape=shape, strides=tuple(strides), dtype=dtype)


def collective_call(row: TableRow) -> list[Operation]:
    """The call; none: its operation has no price."""
    name, (elements, gpus) = COLLECTIVE_CALLS.get(row.source), row.sizes.values()
    if not name:
        return []
    read = elements // (gpus if row.source == "all_gather" else 1)
    written = elements // (gpus if row.source == "reduce_scatter" else 1)
    given, made = (_data(*data, row.dtype) for data in ((DATA, read), (RESULT, written)))
    said = {RANKS: gpus}
    return [Operation(kind="torch", name=name, inputs=(given,), outputs=(made,), arguments=said)]


def least_collective_s(row: TableRow, device: Device) -> float:
    """What a GPU sends at least, at its links' peak: all-reduces may be added up by a switch [s]."""
    elements, gpus = row.sizes.values()
    share = 1.0 if row.source == "all_reduce" else (gpus - 1) / gpus
    return elements * COLLECTIVE_ITEM_BYTES[row.dtype] * share / device.link_bytes_per_s


def _data(storage: int, elements: int, dtype: str) -> Operand:
    name = {"half": "float16"}.get(dtype, dtype)
    size = elements * COLLECTIVE_ITEM_BYTES[dtype]
    return Operand(storage=storage, storage_bytes=size, shape=(elements,), strides=(1,), dtype=name)
