"""The softmax of the rows of given matrices: Y[b, h] = softmax(X[b, h]), row by row.

Letters as in attention, whose score matrices these are: B * H matrices of M rows and N columns.
"""

from dataclasses import dataclass
from typing import ClassVar

from ..dtypes import OPERANDS
from .attention import AttentionProblem, check_size, lengths_text, slab_text
from .problem import Field, Problem, ReadWrite, check_dtype, check_whole_numbers, none_of, unlike


@dataclass(frozen=True, slots=True, kw_only=True)
class SoftmaxProblem(Problem):
    """Shape and type of a row softmax.

    What a mask hides is -inf in X and read like the rest.

    Args:
        batch, heads: B * H matrices; seqlen_q: M, rows of each; seqlen_k: N, elements of a row.
        dtype: element type of X and Y: fp32, fp16, bf16 or fp8.

    Raises:
        ValueError: a field is out of range; the text names field, value and what is allowed.
    """

    KIND: ClassVar[str] = "softmax"
    MOVES: ClassVar[str] = "X read once, Y written once"
    FIELDS: ClassVar[tuple[Field, ...]] = tuple(
        item for item in AttentionProblem.FIELDS if item.name in ("batch", "heads", "dtype")
    )

    batch: int
    heads: int
    seqlen_q: int
    seqlen_k: int
    dtype: str = "fp16"

    def __post_init__(self) -> None:
        check_whole_numbers(self, "batch", "heads", "seqlen_q", "seqlen_k")
        check_dtype(self.dtype, OPERANDS)
        check_size(self.seqlen_q, self.seqlen_k, self.batch * self.heads)

    @classmethod
    def of(cls, problem: Problem) -> "SoftmaxProblem":
        """The softmax of a problem's score matrices. Raises: ValueError: it masks or drops some, or has none."""
        if isinstance(problem, cls):
            return problem
        if type(problem) is not AttentionProblem:
            raise ValueError(unlike(cls, problem))
        for name, nothing in problem.ASKS_NOTHING.items():
            if getattr(problem, name) != nothing:
                raise ValueError(none_of(name, getattr(problem, name)))
        return cls(
            batch=problem.batch,
            heads=problem.heads,
            seqlen_q=problem.seqlen_q,
            seqlen_k=problem.seqlen_k,
            dtype=problem.dtype,
        )

    @property
    def key(self) -> str:
        """In a word, e.g. `B4-H32-M4096-N4096-fp16`."""
        return f"B{self.batch}-H{self.heads}-M{self.seqlen_q}-N{self.seqlen_k}-{self.dtype}"

    @property
    def text(self) -> str:
        """In one line, e.g. `B=4 H=32 M=N=4096 fp16`."""
        return f"B={self.batch} H={self.heads} {lengths_text(self.seqlen_q, self.seqlen_k)} {self.dtype}"

    @property
    def head_group(self) -> int:
        """Matrices that share a matrix of another tensor: none do."""
        return 1

    @property
    def elements(self) -> int:
        """Elements of X, and of Y."""
        return self.batch * self.heads * self.seqlen_q * self.seqlen_k

    @property
    def compulsory(self) -> ReadWrite:
        """X read once, Y written once [B]."""
        size_bytes = self.elements * self.element_bytes
        return ReadWrite(read_bytes=size_bytes, write_bytes=size_bytes)

    @property
    def exp_count(self) -> int:
        """One exponential an element."""
        return self.elements

    @property
    def flop_per_matmul(self) -> int:
        """None: there is no matrix product."""
        return 0

    @property
    def matmul_flop(self) -> int:
        """None: there is no matrix product."""
        return 0

    def part_text(self, slab: int, first_row: int, last_row: int) -> str:
        """E.g. `head 3, rows 128-255`, with the sequence before it where there are several."""
        return slab_text(slab, self.batch, self.heads) + f", rows {first_row}-{last_row}"
