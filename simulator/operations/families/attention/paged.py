"""Attention over pages of a cache of keys and values, as vLLM calls it, and the write to these pages before it.

FlashAttention-2 and 3 are operations of vLLM's (`_vllm_fa2_C::varlen_fwd`, `_vllm_fa3_C::fwd`); TensorRT-LLM's kernels
are functions of FlashInfer. A CTA takes a tile of queries over its keys, a block of them at a time; query heads that
share keys may stand in one tile; keys are split among CTAs where tiles are few. These rules hold on all GPUs; times
are of an architecture (`attention.paged_` in `device/torch_kernels`).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import ceil, prod

from ...cost_model import KernelCostModel, part, scratch
from ...operation import Operand, Operation
from ...priced import Kernels, NoPrice
from ..elementwise import copied

HALF = ("bfloat16", "float16")
SHARE = 0.8
"""Tiles over CTAs that fit, from which on keys are not split. Source: `num_splits_heuristic` of both versions."""
EFFICIENT = 0.85
"""Of the best share of a wave: the fewest splits that reach it are taken. Source: the same function of version 2."""
FA2_SPLITS, FA3_SPLITS = 128, 32
"""Most splits. Source: version 2's heuristic; `max_num_splits` of vLLM's FlashAttention back end, for CUDA graphs."""
WHOLE_BLOCKS = 4
"""Blocks of keys up to which version 3 does not split. Source: its `num_splits_heuristic`."""
MORE_WORK = 1.1
"""Work that version 3 takes an SM's share for, so that rounding makes no wave more (`prepare_varlen_num_blocks`)."""
PREPARED = 992
"""Sequences up to which version 3 has a kernel that counts each one's splits. Source: the same kernel, 31 warps."""
WRITERS = 512
"""Most threads of a CTA that writes a token's keys and values (`reshape_and_cache_flash` of vLLM)."""
WIDTH = 64
"""Head dims are padded to a multiple of it. Source: instances of FlashAttention-3."""
TOGETHER = 5
"""Dimensions of pages that hold keys and values: [pages, 2, heads, tokens, dim]."""
NORM = "attention.paged_norm"


@dataclass(frozen=True, slots=True, kw_only=True)
class Paged:
    """Sequences of equal length.

    Args:
        batch: sequences; heads, key_heads: of each; queries, keys: of each, the queries last; window: keys that a
            query sees behind itself; 0: all.
    """

    batch: int
    heads: int
    key_heads: int
    queries: int
    keys: int
    head_dim: int
    causal: bool
    window: int

    @property
    def shared(self) -> int:
        """Query heads that share keys."""
        return self.heads // self.key_heads

    @property
    def narrows(self) -> bool:
        """Whether the window leaves keys out."""
        return 0 < self.window < self.keys

    @property
    def keys_read(self) -> int:
        """Keys of a sequence that some query sees."""
        return min(self.keys, self.window + self.queries) if self.window else self.keys


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """What a CTA takes.

    Args:
        rows: of queries; keys: of a block; heads: of queries that stand together in its rows.
        more: blocks that it takes beside those with keys for it.
    """

    rows: int
    keys: int
    heads: int
    more: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """Args: tiles; blocks: of keys, of all tiles; longest: of one tile; even: all tiles have as many."""

    tiles: int
    blocks: int
    longest: int
    even: bool


def fa2_tile(asked: Paged) -> Tile:
    """Of FlashAttention-2's kernel for pages (`run_mha_fwd_splitkv_dispatch`), one query's heads together."""
    together = asked.queries == 1 and not asked.window
    keys = 256 if asked.head_dim <= 64 else 128 if asked.head_dim <= 128 else 64
    return Tile(rows=64, keys=keys, heads=asked.shared if together else 1)


def fa3_tile(asked: Paged) -> Tile:
    """Of FlashAttention-3 with pages (`tile_size_fwd_sm90`); one group of warps where rows are few.

    One query with a window takes as long as with a block more, by the tables; why is not known.
    """
    narrow = asked.head_dim <= 64
    few = asked.queries * asked.shared <= 64 and not (narrow and asked.narrows)
    more = 1 if asked.queries == 1 and asked.narrows else 0
    keys = 128 if asked.head_dim <= 128 else 96 if asked.head_dim <= 192 else 64
    return Tile(rows=64 if few else 192 if narrow else 128, keys=keys, heads=asked.shared, more=more)


def trtllm_tile(asked: Paged) -> Tile:
    """Of TensorRT-LLM's kernels for tcgen05: twice 128 rows of a prompt, once of wide heads; heads of one query."""
    single = asked.queries == 1
    return Tile(
        rows=64 if single else 256 if asked.head_dim <= 128 else 128, keys=128, heads=asked.shared if single else 1
    )


def fa2_splits(asked: Paged, grid: Grid, sms: int) -> int:
    """Pieces of keys: the fewest that fill waves of two CTAs an SM nearly as well as any."""
    slots, blocks = 2 * sms, grid.longest
    if asked.queries > 1 or asked.window or asked.shared == 1 or grid.tiles >= SHARE * slots:
        return 1
    waves = {
        splits: grid.tiles * splits / slots
        for splits in range(1, min(FA2_SPLITS, slots, blocks) + 1)
        if splits == 1 or ceil(blocks / splits) != ceil(blocks / (splits - 1))
    }
    best = max(wave / ceil(wave) for wave in waves.values())
    return next(splits for splits, wave in waves.items() if wave / ceil(wave) >= EFFICIENT * best)


def fa3_splits(asked: Paged, grid: Grid, sms: int) -> int:
    """Pieces of keys: of an SM's share of all blocks each."""
    if grid.longest <= WHOLE_BLOCKS or grid.tiles >= SHARE * sms:
        return 1
    share = ceil(MORE_WORK * grid.blocks / sms)
    return min(ceil(grid.longest / share), FA3_SPLITS)


def trtllm_splits(asked: Paged, grid: Grid, sms: int) -> int:
    """Pieces of keys: as many as there are SMs for; of a prompt one."""
    return max(min(sms // grid.tiles, grid.longest), 1) if asked.queries == 1 else 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Library:
    """Whose kernels.

    Args:
        widest: head dim that it has kernels for, at most.
        capabilities: GPUs on which its times were fitted, by the begin of their capability.
    """

    name: str
    widest: int
    tile: Callable[[Paged], Tile]
    splits: Callable[[Paged, Grid, int], int]
    capabilities: tuple[str, ...]


FA2 = Library(name="flash_attention_2", widest=256, tile=fa2_tile, splits=fa2_splits, capabilities=("8.", "12."))
FA3 = Library(name="flash_attention_3", widest=256, tile=fa3_tile, splits=fa3_splits, capabilities=("9.",))
TRTLLM = Library(name="trtllm", widest=512, tile=trtllm_tile, splits=trtllm_splits, capabilities=("10.",))
LIBRARIES = {"_vllm_fa2_C": FA2, "_vllm_fa3_C": FA3, "flashinfer": TRTLLM}
"""Namespace of the operation -> library."""


def paged_attention(operation: Operation, gpu: KernelCostModel) -> Kernels:
    """Kernels of attention over pages: of prompts, or of the next token of each sequence."""
    library, asked, device = LIBRARIES[operation.name.partition("::")[0]], paged_of(operation), gpu.device
    if not device.compute_capability.startswith(library.capabilities):
        raise NoPrice(f"by {library.name} on compute capability {device.compute_capability}")
    if asked.head_dim > library.widest:
        raise NoPrice(f"by {library.name} of heads of {asked.head_dim}, which has none above {library.widest}")
    tile = library.tile(asked)
    grid = grid_of(asked, tile)
    splits = library.splits(asked, grid, gpu.sms)
    query, keys, output = operation.inputs[0], operation.inputs[1], operation.outputs[0]
    pools = operation.inputs[1:2] if len(keys.shape) == TOGETHER else operation.inputs[1:3]
    key_bytes = asked.head_dim * query.item_bytes
    read = asked.batch * asked.key_heads * asked.keys_read * key_bytes
    pages = [part(pool, min(2 * read // len(pools), pool.bytes)) for pool in pools]
    again = max(2.0 * (grid.blocks * tile.keys * key_bytes - read), 0.0)
    origin = device.torch_kernels["attention.paged_start_s"].origin
    kernels = _prepared(library, asked, query, gpu)
    kernels.append(
        gpu.kernel(
            f"{library.name}_paged",
            (query, *pages),
            (output,),
            source="attention",
            tensor_s=_busy_s(asked, tile, grid, splits, gpu),
            start_s=gpu.cost("attention.paged_start_s"),
            l2_s=again / device.l2_bytes_per_s,
            hbm_fraction=gpu.cost("attention.paged_hbm_fraction"),
            overlap=NORM,
            note=f"every sequence as long as the longest; {origin.kind}: {origin.source}",
        )
    )
    if splits > 1:
        sums = 4.0 * splits * asked.batch * asked.queries * asked.heads * asked.head_dim
        waits = gpu.cost("attention.paged_combine_s") + splits * gpu.cost("attention.paged_split_s")
        moved_s = 2.0 * sums / device.l2_bytes_per_s
        kernels.append(gpu.kernel("combine", (), (output,), source="attention", latency_s=waits, l2_s=moved_s))
    if library is FA2 and _is_turned(asked, tile):
        kernels.append(copied(_heads(output, asked), _turned(output, asked), gpu))
    return kernels


def _prepared(library: Library, asked: Paged, query: Operand, gpu: KernelCostModel) -> Kernels:
    """What runs before: version 2 lays the heads of one query out as rows, version 3 counts each sequence's splits."""
    if library is FA2 and _is_turned(asked, library.tile(asked)):
        return [copied(_heads(query, asked), _turned(query, asked), gpu)]
    if library is FA3 and asked.batch <= PREPARED:
        counted_s = asked.batch * gpu.cost("attention.paged_sequence_s")
        return [gpu.kernel("prepare_varlen_num_blocks", (), (), source="attention", latency_s=counted_s)]
    return []


def _busy_s(asked: Paged, tile: Tile, grid: Grid, splits: int, gpu: KernelCostModel) -> float:
    """Blocks of keys on all SMs, in whole waves where tiles are even; no less than the longest CTA's [s]."""
    device = gpu.device
    rate = device.fastest_flop_per_cycle("fp16") * device.tensor_clock_hz * gpu.cost("attention.paged_factor")
    flop = 4.0 * WIDTH * ceil(asked.head_dim / WIDTH)
    block_s = tile.rows * tile.keys * (flop / rate + gpu.cost("attention.paged_score_s"))
    waves = grid.tiles * splits / gpu.sms
    idle = ceil(waves) / waves if grid.even else 1.0
    shared_s = (grid.blocks * block_s / gpu.sms + waves * gpu.cost("attention.paged_tile_s")) * idle
    alone_s = gpu.cost("attention.paged_alone_s") + asked.head_dim * gpu.cost("attention.paged_alone_dim_s")
    return max(shared_s, ceil(grid.longest / splits) * block_s + alone_s)


def grid_of(asked: Paged, tile: Tile) -> Grid:
    """Tiles of all sequences, and the blocks of keys that they see."""
    rows, first = asked.queries * tile.heads, asked.keys - asked.queries
    blocks = []
    for begin in range(0, rows, tile.rows):
        end = min(begin + tile.rows, rows)
        last = first + ceil(end / tile.heads) if asked.causal else asked.keys
        least = max(first + begin // tile.heads - asked.window + 1, 0) if asked.window else 0
        blocks.append(ceil(last / tile.keys) - least // tile.keys + tile.more)
    units = asked.batch * asked.heads // tile.heads
    return Grid(tiles=units * len(blocks), blocks=units * sum(blocks), longest=max(blocks), even=len(blocks) == 1)


def paged_of(operation: Operation) -> Paged:
    """What an operation is asked for: lengths are the longest ones, which its arguments say.

    Pages are [tokens, heads, dim] of vLLM's operations, [heads, tokens, dim] of FlashInfer's functions.
    """
    query, keys = operation.inputs[:2]
    given = operation.arguments
    tables = [other for other in operation.inputs[2:] if len(other.shape) == 2 and other.dtype == "int32"]
    by_heads = operation.name.startswith("flashinfer")
    if len(keys.shape) not in (4, TOGETHER) or not tables:
        raise NoPrice("of keys that do not lie in pages")
    if query.dtype not in HALF or keys.dtype != query.dtype:
        raise NoPrice(f"of {query.dtype} over pages of {keys.dtype}")
    asked_keys = given.get("max_seqlen_k") or given.get("max_kv_len") or given.get("max_seq_len")
    if not asked_keys:
        raise NoPrice("of sequences whose longest is not said")
    single = "decode" in operation.name
    return Paged(
        batch=tables[0].shape[0],
        heads=query.shape[-2],
        key_heads=keys.shape[-3 if by_heads else -2],
        queries=1 if single else given.get("max_seqlen_q") or given.get("max_q_len") or 1,
        keys=asked_keys,
        head_dim=query.shape[-1],
        causal=bool(given.get("is_causal", True)),
        window=max(given.get("window_size_left", given.get("window_left", -1)) + 1, 0),
    )


def _is_turned(asked: Paged, tile: Tile) -> bool:
    """Whether heads of one query become rows, and do not lie as such."""
    return tile.heads > 1 and asked.key_heads > 1 and asked.batch > 1


def _heads(rows: Operand, asked: Paged) -> Operand:
    """[batch, heads of keys, heads that share them, dim]."""
    shape = (asked.batch, asked.key_heads, asked.shared, asked.head_dim)
    return replace(rows, shape=shape, strides=tuple(prod(shape[axis + 1 :]) for axis in range(len(shape))))


def _turned(rows: Operand, asked: Paged) -> Operand:
    """The same, heads that share keys before those of keys."""
    dim = asked.head_dim
    strides = (asked.heads * dim, dim, asked.key_heads * dim, 1)
    return scratch(rows, 0, shape=_heads(rows, asked).shape, strides=strides)


def written(operation: Operation, gpu: KernelCostModel) -> Kernels:
    """The kernel of `reshape_and_cache_flash`, a CTA a token: its threads copy keys and values to a page."""
    new, caches = operation.inputs[:2], operation.inputs[2:4]
    tokens, heads, dim = new[0].shape
    if caches[0].dtype != new[0].dtype:
        raise NoPrice(f"of {new[0].dtype} to pages of {caches[0].dtype}")
    waits = tokens * min(heads * dim, WRITERS) * gpu.cost("attention.paged_thread_s")
    pages = [part(cache, min(source.bytes, cache.bytes)) for cache, source in zip(caches, new, strict=True)]
    return [gpu.kernel("reshape_and_cache_flash", new, pages, latency_s=waits)]
