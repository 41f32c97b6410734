"""By which rule engines split the keys of a decode: a batch and a GPU go in, splits of each sequence come out.

Few queries make few CTAs. So kernels cut each sequence's keys into splits, a CTA for each, and combine the partial
outputs in a second kernel. How many splits pay is a guess, and each engine guesses otherwise.
All sequences have one length here, as in a problem.
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
VLLM_MIN_CTAS, VLLM_SEGMENTS = 128, 16
VLLM_MLA_KEYS = 512
SGLANG_MAX_SPLITS = 8
"""Default of --triton-attention-num-kv-splits."""
FLASHINFER_MIN_KEYS = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Decode:
    """A batch of sequences of one length, and the GPU that decodes it.

    Args:
        batch: sequences.
        kv_heads: KV heads of this GPU.
        rows: query rows that share a KV head, queries x heads of its group.
        seqlen_k: keys of a sequence.
        sms: streaming multiprocessors of the GPU.

    Raises:
        ValueError: a field is no positive integer.
    """

    batch: int
    kv_heads: int
    rows: int
    seqlen_k: int
    sms: int

    def __post_init__(self) -> None:
        for name in self.__slots__:
            object.__setattr__(self, name, whole(name, getattr(self, name)))


def flash_attention_3_splits(
    decode: Decode, *, block_m: int, block_n: int, kv_row_bytes: int, causal: bool = False
) -> int:
    """Splits of FlashAttention-3: the fewest within 85 % of the best share of its waves that CTAs fill.

    One split where tiles alone fill 80 % of the SMs, unless queries go over a KV head larger than L2 again and again;
    and one where a sequence has no more than four tiles of keys.

    Args:
        block_m, block_n: rows of a tile of packed queries, and of a tile of keys.
        kv_row_bytes: a row of K and of V of one head, together [B].
        causal: a decode of one query is not.

    Raises:
        ValueError: a number is no positive integer.

    Source: Dao-AILab/flash-attention at 0251105a, hopper/heuristics.h, num_splits_heuristic; hopper/flash_api.cpp,
    get_num_splits. It computes in fp32, this exactly.
    """
    query_tiles = cdiv(decode.rows, whole("block_m", block_m))
    key_tiles = cdiv(decode.seqlen_k, whole("block_n", block_n))
    tiles, head_bytes = decode.batch * decode.kv_heads * query_tiles, decode.seqlen_k * kv_row_bytes
    if 5 * tiles >= 4 * decode.sms:
        again = head_bytes > FLASH_ATTENTION_L2_BYTES and query_tiles >= 2 * decode.sms and not causal
        return min(cdiv(head_bytes, FLASH_ATTENTION_L2_BYTES), FLASH_ATTENTION_MAX_SPLITS) if again else 1
    if key_tiles <= 4:
        return 1
    counts = range(1, min(FLASH_ATTENTION_MAX_SPLITS, decode.sms, key_tiles) + 1)
    waves = [Fraction(tiles * splits, decode.sms) for splits in counts]
    filled = [share / ceil(share) for share in waves]
    return next(splits for splits, share in zip(counts, filled, strict=True) if 20 * share >= 17 * max(filled))


def vllm_triton_splits(decode: Decode, *, seqlen_q: int = 1, capture_sizes: Sequence[int] = ()) -> int:
    """Segments of vLLM's unified Triton attention: sixteen in the kernel with a third axis, one in that with two.

    The first is chosen for one query a sequence, up to as many sequences as leave less than 128 CTAs. Neither the
    length nor the SMs matter.

    Args:
        seqlen_q: queries of a sequence, of the batch's longest.
        capture_sizes: of CUDA graphs, where decode is captured: the nearest replaces the number of sequences.

    Source: vllm-project/vllm at 63013883, vllm/v1/attention/backends/triton_attn.py (MIN_LAUNCH_GRID_SIZE_2D,
    NUM_PAR_SOFTMAX_SEGMENTS, seq_threshold_3D); ops/triton_unified_attention.py, choice of the kernel.
    """
    most = VLLM_MIN_CTAS // decode.kv_heads
    if capture_sizes:
        most = min(capture_sizes, key=lambda size: abs(size - most))
    return VLLM_SEGMENTS if seqlen_q == 1 and decode.batch <= most else 1


def vllm_triton_mla_splits(decode: Decode) -> int:
    """Splits of vLLM's Triton decode over latents (MLA): one for 512 keys, a power of two, two an SM at most.

    Neither the batch nor the heads matter.

    Source: vllm-project/vllm, vllm/v1/attention/backends/mla/triton_mla.py, forward_mqa, as of 2026 (until then four).
    """
    return min(next_power_of_two(max(1, decode.seqlen_k // VLLM_MLA_KEYS)), 2 * decode.sms)


def sglang_triton_splits(decode: Decode, *, max_splits: int = SGLANG_MAX_SPLITS) -> int:
    """Splits of SGLang's Triton decode: as many as fill SMs that grow with the logarithm of the length, up to a cap.

    A CTA takes up to sixteen query heads of a group, and a sequence has one query.

    Args:
        max_splits: --triton-attention-num-kv-splits.

    Raises:
        ValueError: a number is no positive integer.

    Source: sgl-project/sglang at bdd1bcdf, python/sglang/srt/layers/attention/triton_ops/metadata.py,
    get_num_kv_splits_triton. Lengths within 25 % of each other count as one; the logarithm is fp32 there.
    """
    grown = int(decode.sms * max(log2(decode.seqlen_k / 64), 1.0))
    ctas = decode.batch * cdiv(decode.kv_heads * decode.rows, min(16, decode.rows))
    chunk = cdiv(decode.seqlen_k, min(cdiv(grown, ctas), whole("max_splits", max_splits)))
    return cdiv(decode.seqlen_k, chunk)


def flashinfer_splits(decode: Decode, *, ctas_per_sm: int, page_size: int) -> int:
    """Splits of FlashInfer's decode on CUDA cores: the shortest chunk of pages with which all CTAs run at once.

    A chunk has at least 128 keys. One split where the batch fills the GPU.

    Args:
        ctas_per_sm: that the kernel's registers and shared memory allow; page_size: keys of a page.

    Raises:
        ValueError: a number is no positive integer.

    Source: flashinfer-ai/flashinfer at fb28d724, include/flashinfer/attention/scheduler.cuh,
    BatchDecodeWithPagedKVCacheWorkEstimationDispatched, PartitionPagedKVCacheBinarySearchMinNumPagePerBatch.
    """
    pages = cdiv(decode.seqlen_k, whole("page_size", page_size))
    ctas = whole("ctas_per_sm", ctas_per_sm) * decode.sms
    if decode.batch * decode.kv_heads >= ctas:
        return 1
    shortest, longest = max(FLASHINFER_MIN_KEYS // page_size, 1), pages
    while shortest < longest:
        middle = (shortest + longest) // 2
        if decode.batch * cdiv(pages, middle) * decode.kv_heads > ctas:
            shortest = middle + 1
        else:
            longest = middle
    return cdiv(pages, shortest)
