"""A model on one of the GPUs that share it: attention of all layers in prefill and in decoding, and the KV cache.

Prefill is of one sequence, causal, and ranked as `explore` ranks it. A step of decoding is of all sequences; where it
is not predicted, it takes at least what device memory takes to read their keys and values once.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import ceil
from typing import Any

from ..arguments import whole
from ..device.device import Device
from ..models.model import Layers, Model
from ..operations.families.collectives import HOST_GPUS
from ..operations.model_step import Split, decode_step, prefill_step, why_not_whole
from ..prediction.what_helps import Advice
from ..problems.attention import AttentionProblem
from ..schedules.contract import Schedule
from ..schedules.registry import DEFAULT_SCHEDULE, all_schedules
from .candidate import Candidate
from .explore import Exploration
from .splits import SplitAnswer, ways
from .unlucky import unlucky_shapes

LONG = 4096
"""Queries that a schedule made for few of them does not take."""
Explore = Callable[[AttentionProblem], Exploration]
ExploreDecode = Callable[[AttentionProblem], Exploration | None]
"""None where nothing predicts a step of decoding."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """What a model is asked for, and how it is shared.

    Args:
        model; tp: GPUs that share its heads; ep: that share its experts, 1: as `tp` shares them; pp: stages of layers.
        batch: sequences that are decoded together; seqlen: tokens of each.
        kv_dtype: element type of the KV cache, where it is not the model's: as of `AttentionProblem`.
        padded: whether prefill pads values that are narrower than keys to their width.
        gpus: up to how many ways to share it are compared; 0: none are; most: GPUs that are joined.

    Raises:
        ValueError: a number is not allowed; the text names it.
    """

    model: Model
    tp: int = 1
    batch: int = 1
    seqlen: int = 8192
    kv_dtype: str = ""
    padded: bool = True
    ep: int = 1
    pp: int = 1
    gpus: int = 0
    most: int = HOST_GPUS

    def __post_init__(self) -> None:
        why_not_whole(self.model, self.split)
        list(ways(self.model, self.gpus, self.most))
        for name in ("batch", "seqlen"):
            whole(name, getattr(self, name))
        if self.kv_dtype and self.model.latent_dim:
            raise ValueError(
                f"kv_dtype = {self.kv_dtype!r}: latents of {self.model.name} are {self.model.dtype}; leave it out"
            )

    @property
    def split(self) -> Split:
        """How the GPUs share it."""
        return Split(tp=self.tp, ep=self.ep, pp=self.pp, most=self.most)

    @property
    def each_batch(self) -> int:
        """Sequences of a GPU, where some have their own."""
        return ceil(self.batch / self.split.groups)

    @property
    def shard_weight_bytes(self) -> int:
        """Weights on each GPU, as if all were shared evenly; 0 where they are not known [B]."""
        experts = self.model.expert_bytes if self.ep > 1 else 0
        return ceil((self.model.weight_bytes - experts) / (self.tp * self.pp)) + ceil(experts / (self.ep * self.pp))

    @property
    def kv_bytes(self) -> int:
        """KV cache of a sequence on each GPU, all of its layers [B]."""
        return ceil(sum(self.model.count(kind) * self.kv_bytes_of(kind) for kind in self.model.kinds) / self.pp)

    def kv_bytes_of(self, layers: Layers) -> int:
        """The same of one layer of a kind [B]."""
        return self.model.kv_bytes(layers, self.seqlen, self.tp, self.kv_dtype)

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks on the model, and on how it is shared."""
        if self.model.latent_dim and self.tp > 1:
            return (*self.model.notes, f"each of {self.tp} GPUs holds all latents: --tp makes no KV cache smaller")
        copies = self.tp // self.model.kv_heads
        if copies < 2:
            return self.model.notes
        shared = f"{self.tp} GPUs share {self.model.kv_heads} KV heads"
        return (
            *self.model.notes,
            f"{shared}: each is held {copies} times, and the KV cache with it; --tp {self.model.kv_heads} holds one",
        )

    def sequences_that_fit(self, device: Device) -> int | None:
        """How many caches device memory holds beside the weights; None where these are not known.

        Activations and the framework take more, so these are the most there can be.
        """
        if not self.shard_weight_bytes:
            return None
        return max(0, device.hbm_bytes - self.shard_weight_bytes) // self.kv_bytes

    def shared(self, device: Device, split: Split) -> SplitAnswer:
        """The whole model on a device, shared in a way. Raises: ValueError: it cannot be."""
        share = replace(self, tp=split.tp, ep=split.ep, pp=split.pp, gpus=0)
        fit = share.sequences_that_fit(device)
        prefill = prefill_step(self.model, device, split, self.seqlen)
        decode = decode_step(self.model, device, split, self.batch, self.seqlen, self.kv_dtype)
        return SplitAnswer(split=split, prefill=prefill, decode=decode, sequences=fit and fit * split.groups)

    def prefill_problem(self, layers: Layers) -> AttentionProblem:
        """One layer, one sequence, on one GPU."""
        return self.model.problem(
            batch=1, seqlen_q=self.seqlen, seqlen_k=self.seqlen, tp=self.tp, layers=layers, padded=self.padded
        )

    def decode_problem(self, layers: Layers) -> AttentionProblem:
        """One layer, a query of each sequence over the keys that its cache keeps, all of which it sees; on one GPU."""
        keys = min(self.seqlen, self.model.window_of(layers) or self.seqlen)
        shape: dict[str, Any] = {"batch": ceil(self.batch / self.split.under_way), "seqlen_q": 1, "seqlen_k": keys}
        problem = self.model.problem(**shape, tp=self.tp, layers=layers, kind=self.model.decoded)
        cache = {"window": 0, "kv_dtype": self.kv_dtype} if self.model.decoded is AttentionProblem else {}
        return problem.but(causal=False, **cache)


@dataclass(frozen=True, slots=True, kw_only=True)
class LayersAnswer:
    """Layers of one kind on a device.

    Args:
        layers: their kind; count: how many.
        prefill: the ranking of the configurations; best: of them; None where none fits.
        decode: the same of a step of decoding; None where it is not predicted.
        decode_bytes: keys and values that it reads in a layer [B].
        decode_bound_s: the least time that takes [s].
        unlucky: what is unlucky about the shape of prefill here.
    """

    layers: Layers
    count: int
    prefill: Exploration
    decode: Exploration | None
    decode_bytes: int
    decode_bound_s: float
    unlucky: tuple[Advice, ...]

    @property
    def best(self) -> Candidate | None:
        """The fastest configuration of prefill; None where none fits."""
        return self.prefill.ranked[0] if self.prefill.ranked else None

    @property
    def prefill_s(self) -> float:
        """Prefill of a layer [s]; infinite where no configuration fits."""
        return self.best.costs[0] if self.best else float("inf")

    @property
    def best_decode(self) -> Candidate | None:
        """The same of a step of decoding; None where it is not predicted, or none fits."""
        return self.decode.ranked[0] if self.decode and self.decode.ranked else None

    @property
    def decode_s(self) -> float:
        """A step of decoding, a layer: predicted, or at least where it is not [s]."""
        return self.best_decode.costs[0] if self.best_decode else self.decode_bound_s

    @property
    def untried(self) -> dict[str, tuple[int, int]]:
        """`prefill` or `decode` -> configurations that no time was left for, and all, where there are any."""
        asked = {"prefill": self.prefill, "decode": self.decode}
        late = {name: sum(item.is_unanswered for item in some.candidates) for name, some in asked.items() if some}
        return {name: (count, len(some.candidates)) for name, count in late.items() if count and (some := asked[name])}

    def to_dict(self) -> dict[str, Any]:
        """The object of these layers in `tilesight model --json`."""
        best = self.best
        return {
            "layers": self.layers,
            "count": self.count,
            "prefill": {
                "problem": self.prefill.problem.to_dict(),
                "best": best.to_dict() if best else None,
                "all_layers_s": self.count * self.prefill_s if best else None,
            },
            "decode": {
                "kv_read_bytes": self.decode_bytes,
                "best": self.best_decode.to_dict() if self.best_decode else None,
                "time_at_least_s": self.decode_bound_s,
                "all_layers_s": self.count * self.decode_s,
            },
            "unlucky": [{"kind": item.cause, "cost": item.text, "cure": item.cure} for item in self.unlucky],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingAnswer:
    """A model on a device.

    Args:
        asked; device_name: in the catalogue, or a path; kinds: its layers; notes.
        whole: all of it, shared as asked for; splits: ways to share it, if they are asked for.
    """

    asked: Serving
    device: Device
    device_name: str
    kinds: tuple[LayersAnswer, ...]
    whole: SplitAnswer
    splits: tuple[SplitAnswer, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def missing(self) -> tuple[str, ...]:
        """What of the answer is missing, and why: a line for prefill, and for decode, of layers of a kind."""
        lines = []
        for kind in self.kinds:
            for name, some in (("prefill", kind.prefill), ("decode", kind.decode)):
                lines += [
                    f"{self.device_name}: no {name} of {kind.layers} layers: {item.reason}"
                    for item in (some.candidates[:1] if some and not some.ranked else ())
                ]
            lines += [
                f"{self.device_name}, {kind.layers} layers: no time was left for {late} of {every} configurations of "
                f"{name}: the fastest may be among them; a longer --time-limit tries them"
                for name, (late, every) in kind.untried.items()
            ]
        return tuple(lines)

    @property
    def prefill_s(self) -> float:
        """Attention of the prefill of one sequence, all layers [s]; infinite where a layer does not run."""
        return sum(kind.count * kind.prefill_s for kind in self.kinds)

    @property
    def decode_s(self) -> float:
        """Attention of a step of decoding, all sequences and layers: at least, where a layer's is not predicted [s]."""
        return sum(kind.count * kind.decode_s for kind in self.kinds)

    @property
    def decode_is_bound(self) -> bool:
        """Whether a step of decoding is not predicted, in layers of some kind."""
        return any(kind.best_decode is None for kind in self.kinds)

    @property
    def sequences(self) -> int | None:
        """How many sequences fit beside the weights, at most; None where these are not known."""
        return self.asked.sequences_that_fit(self.device)

    def to_dict(self) -> dict[str, Any]:
        """The object of this device in `tilesight model --json`."""
        asked = self.asked
        return {
            "device": self.device_name,
            "hbm_bytes": self.device.hbm_bytes,
            "weight_bytes": asked.shard_weight_bytes or None,
            "kv_bytes_per_sequence": asked.kv_bytes,
            "kv_bytes": asked.each_batch * asked.kv_bytes,
            "sequences_at_most": self.sequences,
            "prefill_s": None if self.prefill_s == float("inf") else self.prefill_s,
            "decode_s": self.decode_s,
            "decode_is_bound": self.decode_is_bound,
            "layers": [kind.to_dict() for kind in self.kinds],
            "whole": self.whole.to_dict(),
            "splits": [answer.to_dict() for answer in self.splits],
            "notes": [*self.notes, *self.missing],
        }


def decode_schedules(problem: AttentionProblem) -> list[Schedule]:
    """The schedules that are made for few queries: they take the problem, but not one of as many as prefill has."""
    long = problem.but(seqlen_q=LONG, seqlen_k=max(LONG, problem.seqlen_k))
    return [
        schedule
        for schedule in all_schedules().values()
        if schedule.why_not(problem) is None and schedule.why_not(long) is not None
    ]


def prefill_schedules(problem: AttentionProblem) -> list[Schedule]:
    """The default schedule, or those that take the problem where it does not."""
    able = [schedule for schedule in all_schedules().values() if schedule.why_not(problem) is None]
    return [schedule for schedule in able if schedule.name == DEFAULT_SCHEDULE] or able


def serve(
    asked: Serving,
    device: Device,
    device_name: str,
    explore: Explore,
    explore_decode: ExploreDecode,
    l2: str = "cold",
    overhead: str = "stream",
    notes: tuple[str, ...] = (),
) -> ServingAnswer:
    """A model on one device.

    Args:
        explore: ranks the configurations of a prefill on that device; l2, overhead: as it does that.
        explore_decode: the same of a step of decoding, where something predicts it.
        notes: remarks on the device.
    """
    kinds = []
    for layers in asked.model.kinds:
        prefill = explore(asked.prefill_problem(layers))
        decode_bytes = ceil(asked.batch / asked.split.under_way) * asked.kv_bytes_of(layers)
        kinds.append(
            LayersAnswer(
                layers=layers,
                count=asked.model.count(layers),
                prefill=prefill,
                decode_bytes=decode_bytes,
                decode=explore_decode(asked.decode_problem(layers)),
                decode_bound_s=decode_bytes / device.hbm_read_bytes_per_s,
                unlucky=unlucky_shapes(prefill, device, l2, overhead),
            )
        )
    whole, *splits = (
        asked.shared(device, split) for split in (asked.split, *ways(asked.model, asked.gpus, asked.most))
    )
    return ServingAnswer(
        asked=asked,
        device=device,
        device_name=device_name,
        kinds=tuple(kinds),
        whole=whole,
        splits=tuple(splits),
        notes=notes,
    )
