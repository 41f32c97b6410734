"""One attention forward pass.

O[b, h] = softmax(Q[b, h] K[b, g]^T / sqrt(D) + mask) V[b, g], with g = h // (H / G).
Letters: B batch, H query heads, G KV heads, M query length, N key length, D head dim.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from math import inf
from numbers import Real
from typing import Any, ClassVar

from ..arguments import shown, truth, whole
from ..dtypes import DTYPES, OPERANDS, Dtype
from . import pages
from .lengths import MAX_SEQUENCES, words
from .mask import Mask, Seen
from .pattern import pattern_of
from .problem import Field, Problem, ReadWrite, check_dtype, check_whole_numbers

KV_DTYPES = ("fp8", "i8")
"""Element types of a cache that is narrower than Q."""
SINK_BYTES = 4
"""Of a head's sink, in fp32 [B]."""
MAX_SEQLEN = 1 << 24
MAX_SLABS = MAX_SEQUENCES


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionProblem(Problem):
    """Shape, type and mask of one attention forward pass.

    A causal mask is aligned to the last key, as SDPA and FlashAttention align it when M != N:
    query row i sees keys 0 .. i + N - M. Rows that see no key give 0.

    Args:
        batch: B, number of sequences.
        heads: H, query heads.
        kv_heads: G, key/value heads; must divide H. 0 means "as many as query heads".
        seqlen_q: M, query length.
        seqlen_k: N, key length.
        head_dim: D, elements per head; head_dim_v: of V and O, where it is not D; 0: it is.
        dtype: element type of Q, K, V and O: fp32, fp16, bf16 or fp8 (e4m3, and then O is bf16).
        causal: whether the mask is causal.
        window: keys that a query sees at most, the last up to its own place; 0: all. The mask is then causal.
        mask: what it has beyond these, in a word such as `prefix:512` or `documents:300,212` (`problems.pattern`).
        dropout: probability that an element of P is dropped; most schedules have none.
        lengths: keys of each sequence, where they differ: B of them, the longest is N; empty: all have N.
        page: keys of a page of the cache that K and V lie in, (pages, keys, G, D); 0: they lie in one piece.
        page_order: which pages hold the keys of each sequence, as `pages` says: `random`, `shared:4096`, ...
        kv_dtype: element type of K and V, where it is not that of Q: fp8 (e4m3) or i8, with a scale for each of both.
        softcap: scores are cap * tanh(score / cap); 0: as they are.
        sinks: whether each query head has a learned logit that joins the sum of its rows, and no value.

    Raises:
        ValueError: a field is out of range; the text names field, value and what is allowed.
    """

    KIND: ClassVar[str] = "attention"
    MOVES: ClassVar[str] = "Q, K, V read once, O written once"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field(name="batch", help="Sequences (B).", default=4),
        Field(name="heads", help="Query heads (H).", default=32),
        Field(name="kv_heads", help="KV heads (G); must divide H.  [default: H]", default=None),
        Field(name="head_dim", help="Head dimension (D).", default=64),
        Field(name="head_dim_v", help="Head dimension of V and O, where it is not D; 0: it is.", default=0),
        Field(name="dtype", help="Element type.", default="fp16", metavar="|".join(OPERANDS), choices=OPERANDS),
        Field(name="causal", help="Causal mask, aligned to the last key (bottom right).", default=False),
        Field(name="window", help="Causal mask of the last W keys only (sliding window).", default=0, metavar="W"),
        Field(
            name="mask",
            help="prefix:KEYS, documents:LENGTHS, blocks:FILE, band:KEYS, or first:KEYS beside a window.",
            default="",
            metavar="KIND:...",
        ),
        Field(name="dropout", help="Dropout probability.", default=0.0, metavar="P"),
        Field(
            name="lengths",
            help="Keys of each sequence: 8192,1024x15, or uniform:LOW-HIGHxCOUNT:SEED, or a file of them.",
            default="",
            metavar="LENGTHS|FILE",
        ),
        Field(name="page", help="Keys of a page of the cache of K and V; 0: no pages.", default=0),
        Field(
            name="page_order",
            help="Pages of each sequence: anywhere, in order, the first KEYS the same for all, or listed ('3 0/3 1').",
            default=pages.USUAL,
            metavar="random[:SEED]|sequential|shared:KEYS|LIST|FILE",
        ),
        Field(
            name="kv_dtype",
            help="Element type of K and V, where it is not that of Q.",
            default="",
            metavar="|".join(KV_DTYPES),
            choices=KV_DTYPES,
        ),
        Field(name="softcap", help="Cap of scores, CAP * tanh(score / CAP); 0: none.", default=0.0, metavar="CAP"),
        Field(name="sinks", help="A logit of each query head that joins the sum of its rows.", default=False),
    )
    ASKS_NOTHING: ClassVar[Mapping[str, Any]] = {
        "head_dim_v": 0,
        "window": 0,
        "causal": False,
        "mask": "",
        "dropout": 0.0,
        "lengths": (),
        "page": 0,
        "page_order": pages.USUAL,
        "kv_dtype": "",
        "softcap": 0.0,
        "sinks": False,
    }
    IMPLIED: ClassVar[Mapping[str, str]] = {"causal": "window", "batch": "lengths"}
    HEAD_DIMS: ClassVar[range] = range(16, 513, 8)

    batch: int
    heads: int
    kv_heads: int = 0
    seqlen_q: int
    seqlen_k: int
    head_dim: int
    head_dim_v: int = 0
    dtype: str = "fp16"
    causal: bool = False
    window: int = 0
    mask: str = ""
    dropout: float = 0.0
    lengths: tuple[int, ...] = ()
    page: int = 0
    page_order: str = pages.USUAL
    kv_dtype: str = ""
    softcap: float = 0.0
    sinks: bool = False

    def __post_init__(self) -> None:
        check_whole_numbers(self, "batch", "heads", "seqlen_q", "seqlen_k", "head_dim")
        whole_numbers = {"kv_heads": "1 or more", "window": "1 or more, or 0 for none", "head_dim_v": "16 to 512"}
        for name, allowed in whole_numbers.items():
            object.__setattr__(self, name, whole(name, getattr(self, name), 0, f"an integer of {allowed}"))
        for name in ("causal", "sinks"):
            object.__setattr__(self, name, truth(name, getattr(self, name)))
        if self.kv_heads == 0:
            object.__setattr__(self, "kv_heads", self.heads)
        pattern = pattern_of(self.mask)
        object.__setattr__(self, "mask", pattern.name)
        object.__setattr__(self, "causal", self.causal or self.window > 0 or pattern.is_causal)
        if self.heads % self.kv_heads:
            raise ValueError(f"kv_heads = {self.kv_heads}: must divide heads = {self.heads}")
        check_dtype(self.dtype, OPERANDS)
        if self.head_dim not in self.HEAD_DIMS:
            raise ValueError(f"head_dim = {self.head_dim}: must be a multiple of 8 from 16 to 512")
        if self.head_dim_v and self.head_dim_v not in self.HEAD_DIMS:
            raise ValueError(
                f"head_dim_v = {self.head_dim_v}: must be a multiple of 8 from 16 to 512, or 0 for head_dim"
            )
        if self.head_dim_v == self.head_dim:
            object.__setattr__(self, "head_dim_v", 0)
        for name, end, allowed in (
            ("dropout", 1.0, "a probability in [0, 1)"),
            ("softcap", inf, "above 0, or 0 for none"),
        ):
            value = getattr(self, name)
            if not isinstance(value, Real) or isinstance(value, bool) or not 0.0 <= float(value) < end:
                raise ValueError(f"{name} = {shown(value)}: must be {allowed}")
            object.__setattr__(self, name, float(value))
        check_size(self.seqlen_q, self.seqlen_k, self.batch * self.heads)
        pattern.check(self.seqlen_q, self.seqlen_k, causal=self.causal, window=self.window)
        self._check_cache()

    def _check_cache(self) -> None:
        """Raises: ValueError: lengths, pages or element type of a cache that cannot be."""
        object.__setattr__(self, "lengths", tuple(whole("lengths", length) for length in self.lengths))
        if self.lengths and len(self.lengths) != self.batch:
            raise ValueError(f"lengths: has {len(self.lengths)}: must have batch = {self.batch}, one a sequence")
        if self.lengths and max(self.lengths) != self.seqlen_k:
            raise ValueError(f"lengths: the longest is {max(self.lengths)}: must be seqlen_k = {self.seqlen_k}")
        object.__setattr__(self, "page", whole("page", self.page, 0, "an integer of 1 or more, or 0 for none"))
        if self.kv_dtype not in ("", *KV_DTYPES):
            raise ValueError(f"kv_dtype = {self.kv_dtype!r}: must be one of {', '.join(KV_DTYPES)}")
        if self.mask and self.lengths:
            raise ValueError(f"mask = {shown(self.mask)}: goes with sequences of one length: leave out lengths")
        if self.page:
            pages.pages_of(self.page_order, self.key_lengths, self.page)
        elif self.page_order != pages.USUAL:
            raise ValueError(f"page_order = {self.page_order!r}: needs pages: give page, the keys of one")
        if self.kv_dtype and self.element_bytes != 2:
            raise ValueError(f"kv_dtype = {self.kv_dtype!r}: goes with dtype fp16 or bf16, not {self.dtype}")

    @property
    def key(self) -> str:
        """In a word, e.g. `B4-H32-G8-M4096-N4096-D64-fp16-causal`."""
        parts = [f"B{self.batch}", f"H{self.heads}", f"G{self.kv_heads}", f"M{self.seqlen_q}", f"N{self.seqlen_k}"]
        parts += [f"D{self.head_dim}", self.dtype, *(["causal"] if self.causal else [])]
        parts += [f"V{self.head_dim_v}"] if self.head_dim_v else []
        parts += [f"window{self.window}"] if self.window else []
        parts += [f"mask{_digest(self.mask)}"] if self.mask else []
        parts += [f"dropout{self.dropout:g}"] if self.dropout else []
        parts += [f"lengths{_digest(str(self.lengths))}"] if self.lengths else []
        parts += [f"page{self.page}{self._order_key}"] if self.page else []
        parts += [f"kv{self.kv_dtype}"] if self.kv_dtype else []
        parts += [f"softcap{self.softcap:g}"] if self.softcap else []
        parts += ["sinks"] if self.sinks else []
        return "-".join(parts)

    @property
    def text(self) -> str:
        """In one line, e.g. `B=4 H=32 M=N=4096 D=64 fp16 causal`."""
        kv_heads = f" G={self.kv_heads}" if self.kv_heads != self.heads else ""
        dropout = f" dropout {self.dropout:g}" if self.dropout else ""
        lengths = lengths_text(self.seqlen_q, self.seqlen_k)
        if self.lengths:
            lengths = f"M={self.seqlen_q} N={words(self.lengths)}"
        shape = f"B={self.batch} H={self.heads}{kv_heads} {lengths} D={self.head_dim}"
        shape += f"/{self.head_dim_v}" if self.head_dim_v else ""
        cache = f" kv {self.kv_dtype}" if self.kv_dtype else ""
        cache += f" pages of {self.page}, {pages.short(self.page_order)}" if self.page else ""
        score = f" softcap {self.softcap:g}" if self.softcap else ""
        score += " sinks" if self.sinks else ""
        return f"{shape} {self.dtype} {self.whole_mask.text}{dropout}{cache}{score}"

    @property
    def whole_mask(self) -> Mask:
        """Which keys each query sees."""
        return Mask(causal=self.causal, window=self.window, pattern=pattern_of(self.mask))

    @property
    def value_dim(self) -> int:
        """Elements of a row of V and of O."""
        return self.head_dim_v or self.head_dim

    @property
    def output_dtype(self) -> str:
        """Name of the element type of O."""
        return self.element.result

    @property
    def output_bytes(self) -> int:
        """Size of one element of O [B]."""
        return DTYPES[self.output_dtype].size_bytes

    @property
    def key_lengths(self) -> tuple[int, ...]:
        """Keys of each sequence."""
        return self.lengths or (self.seqlen_k,) * self.batch

    @property
    def kv_element(self) -> Dtype:
        """The element type of K and V."""
        return DTYPES[self.kv_dtype or self.dtype]

    @property
    def shared_keys(self) -> int:
        """Keys of a head that lie in pages which a sequence before has, too."""
        lengths = self.key_lengths
        return sum(lengths) - pages.distinct_keys(self.page_order, lengths, self.page)

    @property
    def _order_key(self) -> str:
        order = self.page_order.replace(":", "")
        return order if order == pages.short(order) else f"listed{_digest(order)}"

    @property
    def head_group(self) -> int:
        """Query heads that share one KV head (H / G); 1 without GQA."""
        return self.heads // self.kv_heads

    @property
    def scores(self) -> int:
        """Elements of the score matrix S that the mask lets through, over all heads."""
        return self.heads * self._seen().scores

    def _seen(self) -> Seen:
        """What the mask lets through of a head of all sequences together."""
        counts = Counter(self.lengths) or {self.seqlen_k: self.batch}
        parts = [(self.whole_mask.seen(self.seqlen_q, length), count) for length, count in counts.items()]
        return Seen(*(sum(part[place] * count for part, count in parts) for place in range(len(Seen._fields))))

    @property
    def exp_count(self) -> int:
        """One exponential a score that the mask lets through, and one more for the tanh of a capped one."""
        return self.scores * (2 if self.softcap else 1)

    @property
    def flop_per_matmul(self) -> int:
        """Useful floating-point operations of the product of Q and K [FLOP]; masked scores do not count."""
        return 2 * self.scores * self.head_dim

    @property
    def matmul_flop(self) -> int:
        """Useful operations of both matrix products [FLOP]: 2 (D + D_v), mostly 4 D, for each score that is not masked.

        FlashAttention, FlashInfer and Triton count so; for a causal mask they take half of all scores.
        """
        return 2 * self.scores * (self.head_dim + self.value_dim)

    @property
    def compulsory(self) -> ReadWrite:
        """Q, K, V and sinks read once, O written once [B].

        Every row counts, also one that the mask leaves without keys; of a mask with a pattern such rows, and keys that
        no query sees, are not read.

        Source: Williams et al., Roofline (2009); FlashAttention (2022), proof of Proposition 3.
        """
        seen = self._seen()
        row_bytes = self.heads * self.head_dim * self.element_bytes
        kv_bytes = self.kv_heads * (self.head_dim + self.value_dim) * self.kv_element.size_bytes
        sinks_bytes = SINK_BYTES * self.heads if self.sinks else 0
        return ReadWrite(
            read_bytes=seen.queries * row_bytes + (seen.keys - self.shared_keys) * kv_bytes + sinks_bytes,
            write_bytes=self.batch * self.heads * self.seqlen_q * self.value_dim * self.output_bytes,
        )

    def part_text(self, slab: int, first_row: int, last_row: int) -> str:
        """E.g. `head 3, queries 128-255`, with the sequence before it where there are several."""
        return slab_text(slab, self.batch, self.heads) + f", queries {first_row}-{last_row}"


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:12]


def lengths_text(seqlen_q: int, seqlen_k: int) -> str:
    """Both lengths in words, e.g. `M=N=4096`."""
    return f"M=N={seqlen_k}" if seqlen_q == seqlen_k else f"M={seqlen_q} N={seqlen_k}"


def slab_text(slab: int, batch: int, heads: int) -> str:
    """A matrix of B * H in words, e.g. `batch 1, head 3`; `head 3` where there is one sequence."""
    sequence, head = divmod(slab, heads)
    return f"batch {sequence}, head {head}" if batch > 1 else f"head {head}"


def check_size(seqlen_q: int, seqlen_k: int, slabs: int) -> None:
    """Raises: ValueError: lengths or matrices beyond what addresses and counts are made for."""
    if max(seqlen_q, seqlen_k) > MAX_SEQLEN:
        longer = "seqlen" if seqlen_q == seqlen_k else "seqlen_q" if seqlen_q > seqlen_k else "seqlen_k"
        raise ValueError(f"{longer} = {max(seqlen_q, seqlen_k)}: must be at most {MAX_SEQLEN} (2^24)")
    if slabs > MAX_SLABS:
        raise ValueError(f"batch * heads = {slabs}: must be at most {MAX_SLABS} (2^20)")
