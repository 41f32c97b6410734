"""Ways to share a model among GPUs of one host, what prefill and a step of decoding take in each, and which is best."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ..models.model import Model
from ..operations.families.collectives import HOST_GPUS
from ..operations.model_step import ModelStep, Split, why_not_whole


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitAnswer:
    """A way to share a model.

    Args:
        split; prefill: of one sequence in each group of GPUs; decode: of all sequences.
        sequences: that fit beside the weights on all GPUs, at most; None where weights are not known.
    """

    split: Split
    prefill: ModelStep
    decode: ModelStep
    sequences: int | None

    @property
    def reason(self) -> str:
        """Why it has no time; empty: it has."""
        return self.prefill.reason or self.decode.reason

    @property
    def fits(self) -> bool:
        """Whether all sequences that are asked for do."""
        return self.sequences is None or self.sequences >= self.decode.tokens

    def to_dict(self) -> dict[str, Any]:
        """Its object in `tilesight model --json`."""
        split = self.split
        return {
            "gpus": split.gpus,
            "tp": split.tp,
            "ep": split.ep,
            "pp": split.pp,
            "replicas": split.replicas,
            "sequences_at_most": self.sequences,
            "prefill": self.prefill.to_dict(),
            "decode": self.decode.to_dict(),
        }


def ways(model: Model, gpus: int, most: int = HOST_GPUS) -> Iterator[Split]:
    """Ways to share a model among 1, 2, 4, 8 GPUs and so on, as far as there are so many, in copies of smaller ones.

    On several hosts each may be a stage.

    Args:
        most: GPUs that are joined.

    Raises:
        ValueError: a host has not so many; the text names `gpus`.
    """
    Split(replicas=gpus, most=most)
    for every in (1 << power for power in range(gpus.bit_length())):
        for tp in (1 << power for power in range(every.bit_length())):
            for ep in [1, *(1 << power for power in range(1, every.bit_length()) if 1 << power >= tp)]:
                shared, stages = max(tp, ep), every // HOST_GPUS
                for pp in (1, stages) if stages > 1 and shared == HOST_GPUS else (1,):
                    with suppress(ValueError):  # heads, MLPs, experts or layers cannot be shared so
                        split = Split(tp=tp, ep=ep, pp=pp, replicas=every // (shared * pp), most=most)
                        why_not_whole(model, split)
                        yield split


def best(answers: Sequence[SplitAnswer]) -> dict[str, SplitAnswer]:
    """What is asked for -> the way that is best at it, of those in which all sequences fit; empty: none does."""
    able = [answer for answer in answers if answer.fits and not answer.reason]
    if not able:
        return {}
    return {
        "first token": min(able, key=lambda answer: answer.prefill.time_s),
        "prefill tokens/s": max(able, key=lambda answer: answer.prefill.tokens_per_s),
        "decode": min(able, key=lambda answer: answer.decode.time_s),
    }
