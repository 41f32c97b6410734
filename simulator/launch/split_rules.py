"""By which rule engines split the keys of a decode, sequence by sequence.

Few queries make few CTAs. So kernels cut each sequence's keys into splits, a CTA for each, and combine the partial
outputs in a second kernel. How many splits pay is a guess, and each engine guesses otherwise: for the batch, from its
longest sequence; or by a chunk of keys that all sequences share, so that short ones have fewer.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, log2

from ..arguments import whole
from ..integers import cdiv, next_power_of_two

FLASH_ATTENTION_MAX_SPLITS = 128
FLASH_ATTENTION_L2_BYTES = 50 << 20
"""What FlashAttention-3 takes every L2 to be [B]."""
FLASH_ATTENTION_MARGIN = Fraction(11, 10)
"""Tiles of keys an SM that it allows for beyond an even share, where lengths differ."""
VLLM_MIN_CTAS, VLLM_SEGMENTS = 128, 16
VLLM_TILE = 16
"""Keys of a tile of its kernel with segments, for queries of two bytes an element."""
VLLM_MLA_KEYS = 512
SGLANG_MAX_SPLITS = 8
"""Default of --triton-attention-num-kv-splits."""
FLASHINFER_MIN_KEYS = 128
FLASHINFER_CTAS_PER_SM = 2
"""That FlashInfer plans for where tensor cores multiply, whatever fits."""

Splits = tuple[int, ...]
"""Of each sequence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decode:
    """A batch of sequences that a GPU decodes, or prefills a chunk of.

    Args:
        lengths: keys of each sequence.
        kv_heads: KV heads of this GPU.
        rows: query rows of a sequence that share a KV head, queries x heads of its group.
        sms: streaming multiprocessors of the GPU.
        window: keys that a query sees at most; 0: all.

    Raises:
        ValueError: there is no sequence, or another field is no positive integer.
    """

    lengths: Splits
    kv_heads: int
    rows: int
    sms: int
    window: int = 0

    def __post_init__(self) -> None:
        for name in ("kv_heads", "rows", "sms"):
            object.__setattr__(self, name, whole(name, getattr(self, name)))
        object.__setattr__(self, "lengths", tuple(whole("lengths", length) for length in self.lengths))
        if not self.lengths:
            raise ValueError("lengths = (): must hold the keys of one sequence at least")
        object.__setattr__(self, "window", whole("window", self.window, 0, "an integer of 1 or more, or 0 for none"))

    @property
    def batch(self) -> int:
        """Sequences."""
        return len(self.lengths)

    @property
    def ragged(self) -> bool:
        """Whether lengths differ."""
        return len(set(self.lengths)) > 1


def flash_attention_3_splits(
    decode: Decode, *, block_m: int, block_n: int, kv_row_bytes: int, causal: bool = False
) -> Splits:
    """Splits of FlashAttention-3: the fewest within 85 % of the best share of its waves that CTAs fill.

    One split where tiles alone fill 80 % of the SMs, unless queries go over a KV head larger than L2 again and again;
    and one where a sequence has no more than four tiles of keys. Where lengths differ that is the most, of the longest
    sequence as if it were alone; each gets as many as leave a CTA a tenth more tiles of keys than an SM's even share.

    Args:
        block_m, block_n: rows of a tile of packed queries, and of a tile of keys.
        kv_row_bytes: a row of K and of V of one head, together [B].
        causal: a decode of one query is not.

    Raises:
        ValueError: a number is no positive integer.

    Source: Dao-AILab/flash-attention at 0251105a, hopper/heuristics.h, num_splits_heuristic; hopper/flash_api.cpp,
    get_num_splits; at 000090d0, hopper/flash_prepare_scheduler.cu, num_splits_dynamic. It computes in fp32, this
    exactly.
    """
    query_tiles = cdiv(decode.rows, whole("block_m", block_m))
    key_tiles = [cdiv(length, whole("block_n", block_n)) for length in decode.lengths]
    tiles = (1 if decode.ragged else decode.batch) * decode.kv_heads * query_tiles
    head_bytes = max(decode.lengths) * whole("kv_row_bytes", kv_row_bytes)
    most = _fewest_for_waves(tiles, query_tiles, max(key_tiles), decode.sms, head_bytes, causal)
    if not decode.ragged:
        return (most,) * decode.batch
    share = ceil(FLASH_ATTENTION_MARGIN * query_tiles * sum(key_tiles) * decode.kv_heads / decode.sms)
    return tuple(max(1, min(cdiv(count, share), most)) for count in key_tiles)


def _fewest_for_waves(tiles: int, query_tiles: int, key_tiles: int, sms: int, head_bytes: int, causal: bool) -> int:
    if 5 * tiles >= 4 * sms:
        again = head_bytes > FLASH_ATTENTION_L2_BYTES and query_tiles >= 2 * sms and not causal
        return min(cdiv(head_bytes, FLASH_ATTENTION_L2_BYTES), FLASH_ATTENTION_MAX_SPLITS) if again else 1
    if key_tiles <= 4:
        return 1
    counts = range(1, min(FLASH_ATTENTION_MAX_SPLITS, sms, key_tiles) + 1)
    waves = [Fraction(tiles * splits, sms) for splits in counts]
    filled = [share / ceil(share) for share in waves]
    return next(splits for splits, share in zip(counts, filled, strict=True) if 20 * share >= 17 * max(filled))


def vllm_triton_splits(decode: Decode, *, seqlen_q: int = 1, capture_sizes: Sequence[int] = ()) -> Splits:
    """Segments of vLLM's unified Triton attention: sixteen in the kernel with a third axis, one in that with two.

    The first is chosen for one query a sequence, up to as many sequences as leave less than 128 CTAs. Neither the
    lengths nor the SMs matter. Sequences have segments of their own length, whole tiles of keys; those without keys
    leave at once.

    Args:
        seqlen_q: queries of a sequence, of the batch's longest; a chunk of a prefill is never split.
        capture_sizes: of CUDA graphs, where decode is captured: the nearest replaces the number of sequences.

    Source: vllm-project/vllm at 63013883, vllm/v1/attention/backends/triton_attn.py (MIN_LAUNCH_GRID_SIZE_2D,
    NUM_PAR_SOFTMAX_SEGMENTS, seq_threshold_3D); at 00139433, vllm/v1/attention/ops/triton_unified_attention.py, choice
    of the kernel, tiles_per_segment.
    """
    most = VLLM_MIN_CTAS // decode.kv_heads
    if capture_sizes:
        most = min(capture_sizes, key=lambda size: abs(size - most))
    if seqlen_q > 1 or decode.batch > most:
        return (1,) * decode.batch
    tiles = [cdiv(length, VLLM_TILE) for length in decode.lengths]
    return tuple(cdiv(count, cdiv(count, VLLM_SEGMENTS)) for count in tiles)


def vllm_triton_mla_splits(decode: Decode) -> Splits:
    """Splits of vLLM's Triton decode over latents (MLA): one for 512 keys, a power of two, two an SM at most.

    By the longest sequence, the same for all. Neither the batch nor the heads matter.

    Source: vllm-project/vllm, vllm/v1/attention/backends/mla/triton_mla.py, forward_mqa, as of 2026 (until then four).
    """
    splits = min(next_power_of_two(max(1, max(decode.lengths) // VLLM_MLA_KEYS)), 2 * decode.sms)
    return (splits,) * decode.batch


def sglang_triton_splits(decode: Decode, *, seqlen_q: int = 1, max_splits: int = SGLANG_MAX_SPLITS) -> Splits:
    """Splits of SGLang's Triton decode: by the shorter of two chunks of keys, the same for all sequences.

    One is the longest sequence over as many splits as fill SMs that grow with the logarithm of its length; the other
    the longest over as many as it is longer than the shortest. Both counts are at most the cap. A CTA takes up to
    sixteen query heads of a group, and a sequence has one query.

    Args:
        seqlen_q: more than one are another kernel's (extend), which splits nothing.
        max_splits: --triton-attention-num-kv-splits.

    Raises:
        ValueError: a number is no positive integer.

    Source: sgl-project/sglang at bdd1bcdf, python/sglang/srt/layers/attention/triton_ops/metadata.py,
    get_num_kv_splits_triton. Lengths within 25 % of each other count as one; the logarithm is fp32 there.
    """
    cap = whole("max_splits", max_splits)
    if seqlen_q > 1:
        return (1,) * decode.batch
    longest, shortest = max(decode.lengths), min(decode.lengths)
    if 8 * longest < 10 * shortest:
        shortest = longest
    grown = int(decode.sms * max(log2(longest / 64), 1.0))
    ctas = decode.batch * cdiv(decode.kv_heads * decode.rows, min(16, decode.rows))
    chunk = min(cdiv(longest, min(count, cap)) for count in (cdiv(longest, shortest), cdiv(grown, ctas)))
    return tuple(cdiv(length, chunk) for length in decode.lengths)


def flashinfer_splits(decode: Decode, *, ctas_per_sm: int, page_size: int) -> Splits:
    """Splits of FlashInfer's decode on CUDA cores: the shortest chunk of pages with which all CTAs run at once.

    A chunk has at least 128 keys. One split where the batch fills the GPU.

    Args:
        ctas_per_sm: that the kernel's registers and shared memory allow; page_size: keys of a page.

    Raises:
        ValueError: a number is no positive integer.

    Source: flashinfer-ai/flashinfer at fb28d724, include/flashinfer/attention/scheduler.cuh,
    BatchDecodeWithPagedKVCacheWorkEstimationDispatched, PartitionPagedKVCacheBinarySearchMinNumPagePerBatch.
    """
    pages = [cdiv(length, whole("page_size", page_size)) for length in decode.lengths]
    ctas = whole("ctas_per_sm", ctas_per_sm) * decode.sms
    if decode.batch * decode.kv_heads >= ctas:
        return (1,) * decode.batch
    return _chunked(pages, ctas // decode.kv_heads, page_size)


def flashinfer_plan_splits(decode: Decode, *, head_dim: int, page_size: int) -> Splits:
    """Splits of FlashInfer's plan for tensor cores, of a chunk of a prefill and of a decode of grouped heads.

    The shortest chunk of pages, of 128 keys at least, with which tiles of queries times chunks are at most two CTAs an
    SM. In a window only its keys count, and those of a tile of queries.

    Args:
        head_dim: of V, by which a tile has 16 to 128 rows; page_size: keys of a page.

    Raises:
        ValueError: a number is no positive integer.

    Source: flashinfer-ai/flashinfer at fb28d724, include/flashinfer/attention/scheduler.cuh, PrefillSplitQOKVIndptr,
    PrefillBinarySearchKVChunkSize, PrefillPlanImpl (two CTAs an SM); include/flashinfer/utils.cuh,
    FA2DetermineCtaTileQ.
    """
    tile = _flashinfer_tile(decode.rows, whole("head_dim", head_dim))
    pages = [cdiv(length, whole("page_size", page_size)) for length in decode.lengths]
    if decode.window:
        pages = [min(cdiv(decode.window - 1 + tile, page_size), count) for count in pages]
    most = FLASHINFER_CTAS_PER_SM * decode.sms // decode.kv_heads
    return _chunked(pages, most // cdiv(decode.rows, tile), page_size)


def _flashinfer_tile(rows: int, head_dim: int) -> int:
    if head_dim >= 512:
        return 16 if rows <= 32 else 32
    if rows <= 16:
        return 16
    return 64 if rows <= 64 or head_dim >= 256 else 128


def _chunked(pages: Sequence[int], most: int, page_size: int) -> Splits:
    """By the shortest chunk of pages, of 128 keys at least, that makes at most so many of all sequences."""
    shortest, longest = max(FLASHINFER_MIN_KEYS // page_size, 1), max(pages)
    while shortest < longest:
        middle = (shortest + longest) // 2
        if sum(cdiv(count, middle) for count in pages) > most:
            shortest = middle + 1
        else:
            longest = middle
    return tuple(cdiv(count, shortest) for count in pages)
