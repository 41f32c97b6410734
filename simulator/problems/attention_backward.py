"""One attention backward pass: from Q, K, V, O, LSE and dO to dQ, dK and dV.

P = exp(Q K^T / sqrt(D) + mask - LSE), delta = rowsum(dO * O), dP = dO V^T, dS = P (dP - delta) / sqrt(D);
dV = P^T dO, dK = dS^T Q, summed over the heads that share a KV head, and dQ = dS K. Letters as in attention.
"""

from dataclasses import dataclass
from typing import ClassVar

from .attention import AttentionProblem
from .problem import ReadWrite

PRODUCTS = 5
"""Matrix products of the backward pass: S, dP, dQ, dK and dV. Who keeps P of the forward pass is spared the first."""
LSE_BYTES = 4
"""Of a row's log-sum-exp, in fp32 [B]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionBackwardProblem(AttentionProblem):
    """Shape, type and mask of one attention backward pass.

    Args and Raises: as of `AttentionProblem`. Gradients have the dtype of the inputs; rows that see no key have none.
    """

    KIND: ClassVar[str] = "attention backward"
    MOVES: ClassVar[str] = "Q, K, V, O, dO, LSE read once, dQ, dK, dV written once"

    @property
    def key(self) -> str:
        """In a word, e.g. `B4-H32-G8-M4096-N4096-D64-fp16-causal-backward`."""
        return f"{super(AttentionBackwardProblem, self).key}-backward"

    @property
    def text(self) -> str:
        """In one line, e.g. `B=4 H=32 M=N=4096 D=64 fp16 causal, backward`."""
        return f"{super(AttentionBackwardProblem, self).text}, backward"

    @property
    def matmul_flop(self) -> int:
        """Useful operations of the five products [FLOP]: 10 D for each score that is not masked, 2.5 x the forward's.

        FlashAttention and Triton count so, also where a kernel computes a product twice.
        """
        return PRODUCTS * self.flop_per_matmul

    @property
    def compulsory(self) -> ReadWrite:
        """Q, K, V, O, dO and LSE read once, dQ, dK and dV written once [B].

        Source: Williams et al., Roofline (2009); FlashAttention-2 (2023), Algorithm 2.
        """
        rows, keys = self.batch * self.heads * self.seqlen_q, self.batch * self.kv_heads * self.seqlen_k
        row_bytes, output_row_bytes = self.head_dim * self.element_bytes, self.head_dim * self.output_bytes
        return ReadWrite(
            read_bytes=(rows + 2 * keys) * row_bytes + rows * (2 * output_row_bytes + LSE_BYTES),
            write_bytes=(rows + 2 * keys) * row_bytes,
        )
