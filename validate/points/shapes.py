"""Problems that `validate` measures which have names, by which schedules list them; `draws` has others."""

from collections.abc import Mapping
from typing import Any

from ...simulator.problems.problem import Problem
from ...simulator.schedules.contract import Schedule

Shape = dict[str, Any]


def _prefill(batch: int, heads: int, lengths: int | tuple[int, int], head_dim: int, **others: Any) -> Shape:
    """An attention of many queries. Args: lengths: of queries and keys."""
    queries, keys = lengths if isinstance(lengths, tuple) else (lengths, lengths)
    shape = {"batch": batch, "heads": heads, "seqlen_q": queries, "seqlen_k": keys, "head_dim": head_dim}
    return shape | others


def _step(batch: int, heads: int, keys: int, seqlen_q: int = 1, **others: Any) -> Shape:
    """A step of decoding, eight KV heads unless told otherwise."""
    shape = {"batch": batch, "heads": heads, "kv_heads": 8, "seqlen_q": seqlen_q, "seqlen_k": keys, "head_dim": 128}
    return shape | others


def _latents(batch: int, heads: int, keys: int, **others: Any) -> Shape:
    """A step of decoding over latents."""
    return {"batch": batch, "heads": heads, "seqlen_q": 1, "seqlen_k": keys, "dtype": "bf16"} | others


SHAPES: dict[str, Shape] = {
    "base": _prefill(4, 32, 4096, 64),
    "causal": _prefill(4, 32, 4096, 64, causal=True),
    "grouped": _prefill(2, 32, 8192, 128, kv_heads=8),
    "small": _prefill(1, 8, 1000, 64),
    "short": _prefill(16, 32, 512, 128, causal=True),
    "long": _prefill(1, 4, 32768, 128),
    "knee": _prefill(1, 2, (65536, 98304), 64),
    "huge": _prefill(1, 1, 131072, 128, causal=True),
    "few": _prefill(8, 32, (128, 16384), 128, kv_heads=4),
    "middle": _prefill(2, 16, 2048, 64),
    "scores": _prefill(4, 16, 4096, 128, causal=True),
    "served": _step(16, 64, 8192),
    "alone": _step(1, 64, 32768),
    "speculative": _step(4, 32, 6000, seqlen_q=5, causal=True),
    "ragged": _step(8, 32, 16384, head_dim=64, lengths=(16384, 500, 8000, 1, 12345, 2048, 4096, 77)),
    "paged": _step(8, 32, 4096, page=64),
    "narrow": _step(16, 32, 8192, kv_dtype="i8"),
    "chunk": _step(2, 32, 8192, seqlen_q=512, causal=True),
    "paged chunk": _step(3, 16, 4096, 256, kv_heads=4, causal=True, lengths=(4096, 1000, 2048), page=64),
    "wide": _prefill(1, 4, (4096, 20000), 64),
    "documents": _prefill(
        2, 16, 4096, 128, kv_heads=4, dtype="bf16", causal=True, mask="documents:1500,1000,700,500,300,96"
    ),
    "narrow values": _prefill(1, 32, 4096, 192, head_dim_v=128, dtype="bf16", causal=True),
    "latents": _latents(16, 128, 8192),
    "latents of a part": _latents(4, 16, 16384, page=64),
}
"""Shapes of the short list, by the names that schedules list them by (`schedules.coverage`)."""


def problem_for(schedule: Schedule, shape: Mapping[str, Any]) -> Problem:
    """The problem of a schedule that has a shape.

    Args:
        shape: fields of an attention problem; those that the schedule's problem has no choice of are as it has them.
    """
    kind = schedule.problem
    return kind(**{name: value for name, value in shape.items() if name in kind.given()})
