"""What the layers of attention of a model compute, and on one of several GPUs that share its heads.

Tensor parallelism divides query heads over GPUs, and KV heads as far as they go; beyond that each GPU holds a copy,
as in vLLM (`total_num_kv_heads` of its models).
"""

from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from ..arguments import whole
from ..dtypes import DTYPES
from ..problems.attention import AttentionProblem
from ..problems.latent_attention import LatentAttentionProblem

Kind = TypeVar("Kind", bound=AttentionProblem)
Layers = Literal["global", "local"]
KINDS: tuple[Layers, ...] = ("global", "local")


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A decoder: all its layers of attention are causal, and have the same heads.

    Args:
        name: in the catalogue, or the path of its config.json.
        heads, kv_heads: query and KV heads of a layer.
        head_dim: elements per head; of latent attention those of a key before it is compressed.
        value_dim: elements of a value, where it is narrower than a key; 0: it is not.
        latent_dim, rope_dim: elements of a latent, and of what is beside it; 0 where keys are not compressed.
        dtype: element type of Q, K, V and O, as of `AttentionProblem`.
        global_layers: layers in which a query sees all keys up to its own place.
        local_layers: layers in which it sees the last `window` of them.
        window: keys; 0 where no layer is local.
        weight_bytes: of the whole model; 0 where its config.json does not tell [B].
        width, inner, vocabulary: of what is between layers, of the hidden layer of an MLP or expert, of the logits;
            0 where its config.json does not tell.
        experts, experts_each: of a layer, and of these for each token; 0: its MLP is one.
        not_whole: why only its attention is answered, in words; empty: all of it is.
        notes: what its attention has that a problem does not, a line each.
    """

    name: str
    heads: int
    kv_heads: int
    head_dim: int
    dtype: str
    global_layers: int
    local_layers: int
    window: int
    weight_bytes: int = 0
    value_dim: int = 0
    latent_dim: int = 0
    rope_dim: int = 0
    width: int = 0
    inner: int = 0
    vocabulary: int = 0
    experts: int = 0
    experts_each: int = 0
    not_whole: str = ""
    notes: tuple[str, ...] = ()

    @property
    def kinds(self) -> tuple[Layers, ...]:
        """The kinds of layers that it has, global ones first."""
        return tuple(kind for kind in KINDS if self.count(kind))

    def count(self, layers: Layers) -> int:
        """How many layers are of a kind."""
        return self.global_layers if layers == "global" else self.local_layers

    def window_of(self, layers: Layers) -> int:
        """Keys that a query sees at most in layers of a kind; 0: all up to its own place."""
        return self.window if layers == "local" else 0

    def kind(self, layers: str | None = None) -> Layers:
        """The kind of layers asked for; where none is, the first that it has.

        Raises:
            ValueError: it has no such layers; the text names `layers`.
        """
        for kind in self.kinds:
            if layers in (None, kind):
                return kind
        allowed = " or ".join(self.kinds)
        raise ValueError(f"layers = {layers!r}: all layers of {self.name} are {allowed}; leave it out")

    def shard(self, tp: int = 1) -> tuple[int, int]:
        """Query and KV heads of each of `tp` GPUs.

        Raises:
            ValueError: they cannot be shared so; the text names `tp` and what is allowed.
        """
        tp = whole("tp", tp)
        if self.heads % tp or max(self.kv_heads, tp) % min(self.kv_heads, tp):
            allowed = [n for n in range(1, self.heads + 1) if self.heads % n == 0]
            allowed = [n for n in allowed if max(self.kv_heads, n) % min(self.kv_heads, n) == 0]
            heads = f"{self.heads} heads and {self.kv_heads} KV heads of {self.name}"
            raise ValueError(f"tp = {tp}: cannot share the {heads}; must be one of {', '.join(map(str, allowed))}")
        return self.heads // tp, max(1, self.kv_heads // tp)

    def fields(
        self,
        layers: str | None = None,
        tp: int = 1,
        problem: type[AttentionProblem] = AttentionProblem,
        padded: bool = True,
    ) -> dict[str, Any]:
        """What it says of a problem, by its fields.

        Args:
            problem: its type; `LatentAttentionProblem` for decoding over latents.
            padded: whether values that are narrower than keys are padded to their width.

        Raises:
            ValueError: as `kind` and `shard`; or there are no latents.
        """
        heads, kv_heads = self.shard(tp)
        window = self.window_of(self.kind(layers))
        if issubclass(problem, LatentAttentionProblem):
            if not self.latent_dim:
                raise ValueError(f"model = {self.name!r}: has no {problem.KIND}")
            latent = {"latent_dim": self.latent_dim, "rope_dim": self.rope_dim}
            return {"heads": heads, **latent, "dtype": self.dtype, "causal": True}
        shape = {"heads": heads, "kv_heads": kv_heads, "head_dim": self.head_dim, "dtype": self.dtype}
        narrow = {"head_dim_v": self.value_dim} if self.value_dim and not padded else {}
        return {**shape, **narrow, "causal": True, "window": window}

    def kv_bytes(self, layers: Layers, tokens: int, tp: int = 1, kv_dtype: str = "") -> int:
        """What one layer of a kind keeps of keys and values of a sequence, on each of `tp` GPUs [B].

        Of a window a layer keeps no more than it; latents are of all heads, and each GPU keeps them.

        Args:
            kv_dtype: element type of the cache, where it has its own.
        """
        _, kv_heads = self.shard(tp)
        kept = min(tokens, self.window_of(layers) or tokens)
        token_elements = self.latent_dim + self.rope_dim or 2 * kv_heads * self.head_dim
        return kept * token_elements * DTYPES[kv_dtype or self.dtype].size_bytes

    def problem(
        self,
        *,
        batch: int,
        seqlen_q: int,
        seqlen_k: int,
        tp: int = 1,
        layers: str | None = None,
        kind: type[Kind] = AttentionProblem,  # type: ignore[assignment]
        padded: bool = True,
    ) -> Kind:
        """The attention of a layer on one GPU. Raises: ValueError: as `fields` and the type of problem."""
        return kind(batch=batch, seqlen_q=seqlen_q, seqlen_k=seqlen_k, **self.fields(layers, tp, kind, padded))

    @property
    def expert_bytes(self) -> int:
        """Weights of all experts [B]."""
        layers = self.global_layers + self.local_layers
        return 3 * layers * self.experts * self.inner * self.width * DTYPES[self.dtype].size_bytes

    @property
    def decoded(self) -> type[AttentionProblem]:
        """The type of problem that a step of decoding is."""
        return LatentAttentionProblem if self.latent_dim else AttentionProblem
