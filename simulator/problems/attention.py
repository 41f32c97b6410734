"""What is to be computed: one attention forward pass, and nothing about how.

O[b, h] = softmax(Q[b, h] K[b, g]^T / sqrt(D) + mask) V[b, g], with g = h // (H / G).
Letters: B batch, H query heads, G KV heads, M query length, N key length, D head dim.
"""

from dataclasses import dataclass
from types import MappingProxyType

DTYPE_BYTES = MappingProxyType({"fp32": 4, "fp16": 2, "bf16": 2, "fp8": 1})


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionProblem:
    """Shape, type and mask of one attention forward pass.

    A causal mask is aligned to the last key, as SDPA and FlashAttention align it when M != N:
    query row i sees keys 0 .. i + N - M. Rows that see no key give 0.

    Args:
        batch: B, number of sequences.
        heads: H, query heads.
        kv_heads: G, key/value heads; must divide H. 0 means "as many as query heads".
        seqlen_q: M, query length.
        seqlen_k: N, key length.
        head_dim: D, elements per head.
        dtype: element type of Q, K, V and O: fp32, fp16, bf16 or fp8 (e4m3, and then O is bf16).
        causal: whether the mask is causal.
        dropout: probability that an element of P is dropped (read by the unfused pipeline only).

    Raises:
        ValueError: a field is out of range; the text names field, value and what is allowed.
    """

    batch: int
    heads: int
    kv_heads: int = 0
    seqlen_q: int
    seqlen_k: int
    head_dim: int
    dtype: str = "fp16"
    causal: bool = False
    dropout: float = 0.0

    def __post_init__(self) -> None:
        for name in ("batch", "heads", "seqlen_q", "seqlen_k", "head_dim"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ValueError(f"{name} = {value!r}: must be an integer of 1 or more")
        if not isinstance(self.kv_heads, int) or isinstance(self.kv_heads, bool) or self.kv_heads < 0:
            raise ValueError(f"kv_heads = {self.kv_heads!r}: must be an integer of 1 or more")
        if self.kv_heads == 0:
            object.__setattr__(self, "kv_heads", self.heads)
        if self.heads % self.kv_heads:
            raise ValueError(f"kv_heads = {self.kv_heads}: must divide heads = {self.heads}")
        if self.dtype not in DTYPE_BYTES:
            raise ValueError(f"dtype = {self.dtype!r}: must be one of {', '.join(DTYPE_BYTES)}")
        if self.head_dim not in HEAD_DIMS:
            raise ValueError(f"head_dim = {self.head_dim}: must be a multiple of 8 from 16 to 256")
        if not isinstance(self.dropout, (int, float)) or not 0.0 <= self.dropout < 1.0:
            raise ValueError(f"dropout = {self.dropout!r}: must be a probability in [0, 1)")
        if self.seqlen_q > MAX_SEQLEN or self.seqlen_k > MAX_SEQLEN:
            raise ValueError(f"seqlen = {max(self.seqlen_q, self.seqlen_k)}: must be at most {MAX_SEQLEN} (2^24)")
        if self.batch * self.heads > MAX_SLABS:
            raise ValueError(f"batch * heads = {self.batch * self.heads}: must be at most {MAX_SLABS} (2^20)")

    @property
    def element_bytes(self) -> int:
        """Size of one element of Q, K or V [B]."""
        return DTYPE_BYTES[self.dtype]

    @property
    def output_bytes(self) -> int:
        """Size of one element of O [B]."""
        return max(DTYPE_BYTES[self.dtype], DTYPE_BYTES["bf16"])

    @property
    def head_group(self) -> int:
        """Query heads that share one KV head (H / G); 1 without GQA."""
        return self.heads // self.kv_heads

    @property
    def scores(self) -> int:
        """Elements of the score matrix S that the mask lets through, over all heads."""
        m, n = self.seqlen_q, self.seqlen_k
        if not self.causal:
            return self.batch * self.heads * m * n
        # Row i sees clamp(i + 1 + n - m, 0, n) keys: an arithmetic series whose first m - n rows are empty.
        first = max(1, n - m + 1)
        rows = min(m, n)
        return self.batch * self.heads * rows * (first + n) // 2

    @property
    def product_flop(self) -> int:
        """Useful floating-point operations of one of the two matrix products [FLOP]; masked scores do not count."""
        return 2 * self.scores * self.head_dim

    @property
    def matmul_flop(self) -> int:
        """Useful floating-point operations of both matrix products [FLOP]: 4 D for each score that is not masked.

        FlashAttention, FlashInfer and Triton count so; for a causal mask they take half of all scores.
        """
        return 2 * self.product_flop


HEAD_DIMS = range(16, 257, 8)
MAX_SEQLEN = 1 << 24
MAX_SLABS = 1 << 20
