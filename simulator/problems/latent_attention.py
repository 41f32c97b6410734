"""Latent attention (MLA) with its projections absorbed: all heads see one latent vector a key.

O[b, h] = softmax(Q[b, h] C[b]^T * scale + mask) C[b, :, :L]. A row of C is a latent of L elements, and R that hold its
place (RoPE); queries have both parts, and the values are the latents themselves. Letters as in attention; D = L + R.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from ..arguments import shown
from .attention import AttentionProblem
from .problem import Field, ReadWrite

LATENT_DIMS, ROPE_DIMS = (16, 32, 64, 128, 256, 512), (16, 32, 64, 128)
TAKEN = ("batch", "heads", "dtype", "causal", "lengths", "page", "page_order")


@dataclass(frozen=True, slots=True, kw_only=True)
class LatentAttentionProblem(AttentionProblem):
    """Shape, type and mask of attention over a cache of latents, C (B, N, L + R).

    Args and Raises: as of `AttentionProblem`; and of its fields those of unlike heads, window, dropout and 8 bits have
        no other value here than their default.
        latent_dim: L, elements of a latent, and of a row of O; rope_dim: R, those of K and Q beside it.
    """

    KIND: ClassVar[str] = "latent attention"
    MOVES: ClassVar[str] = "Q and latents read once, O written once"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        *(item for item in AttentionProblem.FIELDS if item.name in TAKEN),
        Field(name="latent_dim", help="Elements of a latent, which is key and value (L).", default=512),
        Field(name="rope_dim", help="Elements of a key and a query beside it (R).", default=64),
    )
    ASKS_NOTHING: ClassVar[Mapping[str, Any]] = {
        name: nothing for name, nothing in AttentionProblem.ASKS_NOTHING.items() if name in TAKEN
    }
    IMPLIED: ClassVar[Mapping[str, str]] = {"batch": "lengths"}
    HEAD_DIMS: ClassVar[range] = range(32, 641, 16)

    latent_dim: int = 512
    rope_dim: int = 64
    head_dim: int = field(init=False)
    head_dim_v: int = field(init=False, default=0)
    kv_heads: int = field(init=False, default=1)
    window: int = field(init=False, default=0)
    dropout: float = field(init=False, default=0.0)
    kv_dtype: str = field(init=False, default="")

    def __post_init__(self) -> None:
        for name, allowed in (("latent_dim", LATENT_DIMS), ("rope_dim", ROPE_DIMS)):
            if getattr(self, name) not in allowed:
                known = ", ".join(map(str, allowed))
                raise ValueError(f"{name} = {shown(getattr(self, name))}: must be one of {known}")
        object.__setattr__(self, "head_dim", self.latent_dim + self.rope_dim)
        super(LatentAttentionProblem, self).__post_init__()

    @property
    def key(self) -> str:
        """In a word, e.g. `B4-H128-G1-M1-N4096-D576-bf16-latent512`."""
        return f"{super(LatentAttentionProblem, self).key}-latent{self.latent_dim}"

    @property
    def text(self) -> str:
        """In one line, e.g. `B=4 H=128 G=1 M=1 N=4096 D=576 bf16 no mask, latent 512`."""
        return f"{super(LatentAttentionProblem, self).text}, latent {self.latent_dim}"

    @property
    def matmul_flop(self) -> int:
        """Useful operations of both products [FLOP]: 2 (2 L + R) for each score that is not masked."""
        return 2 * self.scores * (self.head_dim + self.latent_dim)

    @property
    def compulsory(self) -> ReadWrite:
        """Q and the latents read once, O written once [B].

        Source: Williams et al., Roofline (2009); DeepSeek-V2 (2024), section 2.1, with the projections absorbed.
        """
        queries, keys = self.batch * self.heads * self.seqlen_q, sum(self.key_lengths) - self.shared_keys
        return ReadWrite(
            read_bytes=(queries + keys) * self.head_dim * self.element_bytes,
            write_bytes=queries * self.latent_dim * self.output_bytes,
        )
