"""A whole model on GPUs that share it: what each launches in prefill and in a step of decoding.

Shared as vLLM and Megatron-LM do: products into heads and hidden layers of MLPs by columns, those out of them by rows,
each followed by an all-reduce; the vocabulary by rows, its logits gathered. Experts lie whole on `ep` GPUs; where these
have sequences of their own, tokens go to their experts and back by an all-to-all each, else an all-reduce adds up.
Norms come with the addition before them, gates with their product, rotations with the store to the cache, as servers
fuse them. Kernels follow each other in CUDA graphs; nothing is computed beside a collective. `pp` stages of as many
layers each work on sequences of their own at a time, and send what they make to the next one.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

from ..arguments import whole
from ..device.device import Device
from ..dtypes import DTYPES
from ..models.model import Layers, Model
from .cost_model import KernelCostModel
from .families.collectives import HOST_GPUS, RANKS
from .operation import Operand, Operation, contiguous
from .price import price
from .priced import KernelEstimate
from .step_clock import slowdown, slowed

TORCH_DTYPES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}
PARTS = ("attention", "projections", "MLP", "norms", "vocabulary", "communication")
"""What a step's time is of, in the order in which it is shown."""
FIRST_WEIGHT = 1 << 20
"""Number of the first storage that belongs to a layer; smaller ones are used by all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """How GPUs share a model.

    Args:
        tp: GPUs that share heads, MLPs and vocabulary; ep: GPUs that share the experts; 1: as `tp` shares them.
        pp: stages that share the layers, each of as many GPUs; replicas: copies of all that, with their own sequences.
        most: GPUs that are joined.

    Raises:
        ValueError: more GPUs than a host has, or `ep` is no multiple of `tp`; the text names it.
    """

    tp: int = 1
    ep: int = 1
    pp: int = 1
    replicas: int = 1
    most: int = HOST_GPUS

    def __post_init__(self) -> None:
        for name, gpus in (("tp", self.tp), ("ep", self.ep), ("pp", self.pp)):
            whole(name, gpus, 0)
            if gpus > self.most:
                raise ValueError(f"{name} = {gpus}: must be at most {self.most}, the GPUs of one host")
        if self.gpus > self.most:
            said = f"pp = {self.pp}: makes {self.gpus} GPUs" if self.pp > 1 else f"gpus = {self.gpus}"
            raise ValueError(f"{said}: must be at most {self.most}, the GPUs of one host")
        if self.ep > 1 and self.ep % self.tp:
            raise ValueError(f"ep = {self.ep}: must be a multiple of tp = {self.tp}, whose GPUs hold experts as well")

    @property
    def shared(self) -> int:
        """GPUs of a stage."""
        return max(self.tp, self.ep)

    @property
    def gpus(self) -> int:
        """All of them."""
        return self.shared * self.pp * self.replicas

    @property
    def groups(self) -> int:
        """How many groups of GPUs keep sequences of their own."""
        return self.gpus // (self.tp * self.pp)

    @property
    def under_way(self) -> int:
        """How many parts of all sequences are computed at a time."""
        return self.groups * self.pp

    @property
    def text(self) -> str:
        """E.g. `2 x tp 4`, `tp 2, ep 8`."""
        more = "".join(f", {name} {gpus}" for name, gpus in (("ep", self.ep), ("pp", self.pp)) if gpus > 1)
        return (f"{self.replicas} x " if self.replicas > 1 else "") + f"tp {self.tp}{more}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelStep:
    """What a step takes, from the first stage to the last.

    Args:
        split; tokens: of all GPUs.
        parts_s: of each of `PARTS` [s]; gaps_s: between its kernels [s]; reason: why it has no time, empty: it has.
    """

    split: Split
    tokens: int
    parts_s: tuple[float, ...]
    gaps_s: float
    reason: str = ""

    @property
    def time_s(self) -> float:
        """Of the whole step [s]."""
        return sum(self.parts_s) + self.gaps_s

    @property
    def communication_s(self) -> float:
        """Of its collectives [s]."""
        return self.parts_s[PARTS.index("communication")]

    @property
    def tokens_per_s(self) -> float:
        """Of all GPUs [1/s]."""
        return self.tokens / self.time_s

    def to_dict(self) -> dict[str, Any]:
        """Its object in `tilesight model --json`."""
        if self.reason:
            return {"reason": self.reason}
        parts = {part.lower(): time_s for part, time_s in zip(PARTS, self.parts_s, strict=True)}
        return {"time_s": self.time_s, "tokens_per_s": self.tokens_per_s, "parts_s": parts, "gaps_s": self.gaps_s}


def why_not_whole(model: Model, split: Split) -> str:
    """Why only attention of a model has a time; empty: all of it has. Raises: ValueError: it cannot be split so."""
    model.shard(split.tp)
    if split.ep > 1 and not model.experts:
        raise ValueError(f"ep = {split.ep}: there are no experts in {model.name} to share, or not known; leave it out")
    if split.ep > 1 and model.experts % split.ep:
        raise ValueError(f"ep = {split.ep}: must divide the {model.experts} experts of {model.name}")
    layers = model.global_layers + model.local_layers
    if layers % split.pp:
        raise ValueError(f"pp = {split.pp}: must divide the {layers} layers of {model.name}")
    if split.ep == 1 and model.inner % split.tp:
        raise ValueError(f"tp = {split.tp}: must divide the hidden width {model.inner} of MLPs of {model.name}")
    return model.not_whole


def prefill_step(model: Model, device: Device, split: Split, seqlen: int) -> ModelStep:
    """A sequence's tokens at once, in each stage of each group; the last one's logits. Raises: as `why_not_whole`."""
    return _Step(model, device, split, sequences=1, queries=seqlen, keys=seqlen).timed(split.under_way * seqlen)


def decode_step(model: Model, device: Device, split: Split, batch: int, seqlen: int, kv_dtype: str = "") -> ModelStep:
    """A token for each of `batch` sequences of `seqlen` tokens, as even a share of them as can be in each stage."""
    sequences = ceil(batch / split.under_way)
    return _Step(model, device, split, sequences=sequences, queries=1, keys=seqlen, kv_dtype=kv_dtype).timed(batch)


Launched = Iterator[tuple[str, tuple[KernelEstimate, ...]]]
"""Parts and their kernels."""


class _Step:
    """The kernels of a step on one GPU."""

    def __init__(
        self, model: Model, device: Device, split: Split, *, sequences: int, queries: int, keys: int, kv_dtype: str = ""
    ) -> None:
        self.model, self.split, self.gpu = model, split, KernelCostModel(device)
        self.sequences, self.queries, self.keys = sequences, queries, keys
        self.tokens, self.kv_dtype = sequences * queries, DTYPES[kv_dtype or model.dtype].size_bytes
        self.dtype, self.storage = TORCH_DTYPES.get(model.dtype, ""), FIRST_WEIGHT
        self.heads, self.kv_heads = model.shard(split.tp)

    def timed(self, tokens: int) -> ModelStep:
        """What all of them take. Args: tokens: of all GPUs. Raises: ValueError: as `why_not_whole`."""
        parts, gaps, reason = dict.fromkeys(PARTS, 0.0), 0, why_not_whole(self.model, self.split)
        once = [self.ends()] if not reason else []
        for kind in self.model.kinds if not reason else ():
            list(self.layer(kind))  # it leaves to L2 what a layer does
            once += [self.layer(kind)]
        every = [
            (count, part, kernels)
            for count, launched in zip((1, *map(self.model.count, self.model.kinds)), once, strict=False)
            for part, kernels in launched
        ]
        counts, priced = [count for count, _, _ in every], [kernels for _, _, kernels in every]
        lasting = slowed(priced, slowdown(priced, self.gpu.device, counts))
        for (count, part, _), kernels in zip(every, lasting, strict=True):
            reason = reason or next((kernel.reason.partition(";")[0] for kernel in kernels if kernel.reason), "")
            parts[part] += count * sum(kernel.time_s for kernel in kernels)
            gaps += count * len(kernels)
        return ModelStep(
            split=self.split,
            tokens=tokens,
            parts_s=tuple(parts.values()),
            gaps_s=gaps * self.gpu.device.launch_graph_s,
            reason=reason,
        )

    def layer(self, kind: Layers) -> Launched:
        """A layer of a kind, with weights of its own."""
        model, width, head = self.model, self.model.width, self.model.head_dim
        x, normed, mixed = (self.tensor(number, self.tokens, width) for number in (1, 2, 3))
        columns = (self.heads + 2 * self.kv_heads) * head
        qkv, attended = self.tensor(4, self.tokens, columns), self.tensor(5, self.tokens, self.heads * head)
        yield "norms", self.fused("add_rms_norm", (x, mixed), (x, normed))
        yield "projections", self.product(normed, columns, qkv)
        yield "norms", self.fused("rotate_and_store", (qkv,), (qkv, self.weight(self.tokens, 2 * self.kv_heads * head)))
        yield "attention", self.attention(kind)
        yield "projections", self.product(attended, width, mixed)
        yield from self.reduced(mixed, self.split.tp)
        yield "norms", self.fused("add_rms_norm", (x, mixed), (x, normed))
        if model.experts:
            yield from self.expert_layer(normed, mixed)
            return
        inner = model.inner // self.split.tp
        wide, gated = self.tensor(6, self.tokens, 2 * inner), self.tensor(7, self.tokens, inner)
        yield "MLP", self.product(normed, 2 * inner, wide)
        yield "MLP", self.fused("silu_and_mul", (wide,), (gated,))
        yield "MLP", self.product(gated, width, mixed)
        yield from self.reduced(mixed, self.split.tp)

    def expert_layer(self, normed: Operand, mixed: Operand) -> Launched:
        """Tokens to their experts, which are drawn evenly, products of each, and back."""
        model, split, width = self.model, self.split, self.model.width
        moved = split.ep > split.tp
        tokens = self.tokens * (split.ep // split.tp if moved else 1)
        here, inner = model.experts // split.ep, model.inner // (1 if split.ep > 1 else split.tp)
        busy = ceil(here * (1.0 - (1.0 - model.experts_each / model.experts) ** tokens))
        rows = ceil(tokens * model.experts_each / split.ep / busy)
        scores = self.tensor(8, self.tokens, model.experts)
        given, made = (self.tensor(number, busy, rows, width) for number in (9, 10))
        wide, gated = self.tensor(11, busy, rows, 2 * inner), self.tensor(12, busy, rows, inner)
        sent = self.tensor(13, ceil(self.tokens * model.experts_each / split.tp), width)
        yield "MLP", self.product(normed, model.experts, scores)
        yield "MLP", self.fused("topk_softmax", (scores,), (self.tensor(14, self.tokens, 2 * model.experts_each),))
        yield "MLP", self.fused("sort_by_expert", (normed,), (given,))
        if moved:
            yield "communication", self.collective("alltoall_base_", sent, split.ep)
        yield "MLP", self.priced("bmm", (given, self.weight(busy, width, 2 * inner)), (wide,))
        yield "MLP", self.fused("silu_and_mul", (wide,), (gated,))
        yield "MLP", self.priced("bmm", (gated, self.weight(busy, inner, width)), (made,))
        if moved:
            yield "communication", self.collective("alltoall_base_", sent, split.ep)
        yield "MLP", self.fused("sum_of_experts", (made,), (mixed,))
        if not moved:
            yield from self.reduced(mixed, split.tp)
        elif split.tp > 1:
            yield "communication", self.collective("_allgather_base_", mixed, split.tp)

    def attention(self, kind: Layers) -> tuple[KernelEstimate, ...]:
        """As torch's cuDNN has it; of a window, blocks of as many queries over twice as many keys, a triangle each."""
        window, head = self.model.window_of(kind), self.model.head_dim
        count, queries, keys = self.sequences, self.queries, self.keys
        if window and window < keys:
            count, queries = (count * ceil(queries / window), min(window, queries))
            keys = 2 * window if queries > 1 else window
        dtype = self.dtype
        if queries == 1 and self.kv_dtype == 1:
            dtype = "float8_e4m3fn"
        q, o = (self.tensor(number, count, self.heads, queries, head) for number in (4, 5))
        k, v = (self.weight(count, self.kv_heads, keys, head, dtype=dtype) for _ in "kv")
        causal = {"is_causal": queries > 1}
        return self.priced("_scaled_dot_product_cudnn_attention", (q, k, v), (o,), **causal)

    def ends(self) -> Launched:
        """The embedding, and the logits of each sequence's last token."""
        model, tp, width = self.model, self.split.tp, self.model.width
        share = ceil(model.vocabulary / tp)
        x, last = self.tensor(1, self.tokens, width), self.tensor(2, self.sequences, width)
        logits, every = self.tensor(15, self.sequences, share), self.tensor(16, self.sequences, share * tp)
        yield "vocabulary", self.fused("embedding", (self.weight(ceil(self.tokens / tp), width),), (x,))
        yield from self.reduced(x, tp)
        yield "norms", self.fused("add_rms_norm", (last,), (last,))
        yield "vocabulary", self.product(last, share, logits)
        if tp > 1:
            yield "communication", self.collective("_allgather_base_", logits, tp, every)
        yield "vocabulary", self.fused("argmax", (every,), ())
        for _ in range(self.split.pp - 1):
            yield "communication", self.priced("c10d::send", (x,), (), **{RANKS: self.split.shared * self.split.pp})

    def reduced(self, operand: Operand, gpus: int) -> Launched:
        """Added up over GPUs, where there are several."""
        if gpus > 1:
            yield "communication", self.collective("allreduce_", operand, gpus)

    def collective(
        self, name: str, operand: Operand, gpus: int, made: Operand | None = None
    ) -> tuple[KernelEstimate, ...]:
        """A collective of a number of GPUs."""
        return self.priced(f"c10d::{name}", (operand,), (made or operand,), **{RANKS: gpus})

    def product(self, left: Operand, columns: int, made: Operand) -> tuple[KernelEstimate, ...]:
        """A product with weights of a number of columns."""
        weight = self.weight(columns, left.shape[-1])
        turned = Operand(
            storage=weight.storage,
            storage_bytes=weight.storage_bytes,
            shape=weight.shape[::-1],
            strides=weight.strides[::-1],
            dtype=weight.dtype,
        )
        return self.priced("mm", (left, turned), (made,))

    def priced(
        self, name: str, inputs: Sequence[Operand], outputs: Sequence[Operand], **arguments: object
    ) -> tuple[KernelEstimate, ...]:
        """An operation of torch's."""
        work = Operation(kind="torch", name=name, inputs=tuple(inputs), outputs=tuple(outputs), arguments=arguments)
        return price(work, self.gpu)

    def fused(self, name: str, reads: Sequence[Operand], writes: Sequence[Operand]) -> tuple[KernelEstimate, ...]:
        """A kernel that takes what its bytes do."""
        return (self.gpu.kernel(name, reads, writes),)

    def weight(self, *shape: int, dtype: str = "") -> Operand:
        """A tensor that no other layer uses."""
        self.storage += 1
        return self.tensor(self.storage, *shape, dtype=dtype)

    def tensor(self, storage: int, *shape: int, dtype: str = "") -> Operand:
        """A contiguous tensor."""
        return contiguous(storage, shape, dtype or self.dtype)
