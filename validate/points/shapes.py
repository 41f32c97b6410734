"""Problems that `validate` measures: those with names, which schedules list, and those that a generator draws."""

import random
from collections.abc import Iterator, Mapping
from typing import Any

from ...simulator.problems.attention import AttentionProblem
from ...simulator.problems.problem import Problem
from ...simulator.schedules.contract import Schedule

LENGTHS = (512, 1000, 1024, 1536, 2048, 3000, 4096, 6144, 8192, 12288, 16384, 32768, 49152, 65536, 98304, 131072)
HEADS = (1, 2, 4, 8, 16, 24, 32, 48, 64, 128, 256, 512)
"""Sequences times query heads."""
HEADS_OF_A_SEQUENCE = 64
BATCHES = (1, 2, 3, 4, 8, 12, 16, 24, 32, 48, 64, 128)
"""Sequences of a step of decoding."""
SERVED_HEADS = ((64, 8), (32, 8), (28, 4), (40, 8), (8, 1), (16, 1), (32, 32), (16, 16), (32, 4))
"""Query heads and KV heads of models that are served, some divided among GPUs."""
RAGGED_SHARE = 0.2
LONGEST_PAGED = 8192
"""Keys of a sequence in pages: each page is a piece of its own to a simulation."""

SHAPES: dict[str, dict[str, Any]] = {
    "base": {"batch": 4, "heads": 32, "seqlen_q": 4096, "seqlen_k": 4096, "head_dim": 64},
    "causal": {"batch": 4, "heads": 32, "seqlen_q": 4096, "seqlen_k": 4096, "head_dim": 64, "causal": True},
    "grouped": {"batch": 2, "heads": 32, "kv_heads": 8, "seqlen_q": 8192, "seqlen_k": 8192, "head_dim": 128},
    "small": {"batch": 1, "heads": 8, "seqlen_q": 1000, "seqlen_k": 1000, "head_dim": 64},
    "short": {"batch": 16, "heads": 32, "seqlen_q": 512, "seqlen_k": 512, "head_dim": 128, "causal": True},
    "long": {"batch": 1, "heads": 4, "seqlen_q": 32768, "seqlen_k": 32768, "head_dim": 128},
    "knee": {"batch": 1, "heads": 2, "seqlen_q": 65536, "seqlen_k": 98304, "head_dim": 64},
    "huge": {"batch": 1, "heads": 1, "seqlen_q": 131072, "seqlen_k": 131072, "head_dim": 128, "causal": True},
    "few": {"batch": 8, "heads": 32, "kv_heads": 4, "seqlen_q": 128, "seqlen_k": 16384, "head_dim": 128},
    "middle": {"batch": 2, "heads": 16, "seqlen_q": 2048, "seqlen_k": 2048, "head_dim": 64},
    "scores": {"batch": 4, "heads": 16, "seqlen_q": 4096, "seqlen_k": 4096, "head_dim": 128, "causal": True},
    "served": {"batch": 16, "heads": 64, "kv_heads": 8, "seqlen_q": 1, "seqlen_k": 8192, "head_dim": 128},
    "alone": {"batch": 1, "heads": 64, "kv_heads": 8, "seqlen_q": 1, "seqlen_k": 32768, "head_dim": 128},
    "speculative": {
        "batch": 4,
        "heads": 32,
        "kv_heads": 8,
        "seqlen_q": 5,
        "seqlen_k": 6000,
        "head_dim": 128,
        "causal": True,
    },
    "ragged": {
        "batch": 8,
        "heads": 32,
        "kv_heads": 8,
        "seqlen_q": 1,
        "seqlen_k": 16384,
        "head_dim": 64,
        "lengths": (16384, 500, 8000, 1, 12345, 2048, 4096, 77),
    },
    "paged": {"batch": 8, "heads": 32, "kv_heads": 8, "seqlen_q": 1, "seqlen_k": 4096, "head_dim": 128, "page": 64},
    "narrow": {
        "batch": 16,
        "heads": 32,
        "kv_heads": 8,
        "seqlen_q": 1,
        "seqlen_k": 8192,
        "head_dim": 128,
        "kv_dtype": "i8",
    },
    "chunk": {
        "batch": 2,
        "heads": 32,
        "kv_heads": 8,
        "seqlen_q": 512,
        "seqlen_k": 8192,
        "head_dim": 128,
        "causal": True,
    },
    "paged chunk": {
        "batch": 3,
        "heads": 16,
        "kv_heads": 4,
        "seqlen_q": 256,
        "seqlen_k": 4096,
        "head_dim": 128,
        "causal": True,
        "lengths": (4096, 1000, 2048),
        "page": 64,
    },
    "wide": {"batch": 1, "heads": 4, "seqlen_q": 4096, "seqlen_k": 20000, "head_dim": 64},
}
"""Shapes of the short list, by the names that schedules list them by (`schedules.coverage`)."""


def problem_for(schedule: Schedule, shape: Mapping[str, Any]) -> Problem:
    """The problem of a schedule that has a shape. Args: shape: fields of an attention problem."""
    kind = schedule.problem
    return kind(**shape) if issubclass(kind, AttentionProblem) else kind.of(AttentionProblem(**shape))


def drawn_problems(schedule: Schedule, generator: random.Random) -> list[Problem]:
    """Problems of a schedule, alike but for how many heads, or sequences, there are."""
    draw = _decode_steps if schedule.coverage.shapes == "decode" else _prefills
    return [problem_for(schedule, shape) for shape in draw(generator)]


def _prefills(generator: random.Random) -> Iterator[dict[str, Any]]:
    """Any mask, lengths and groups; as many queries as keys, more or fewer."""
    length = generator.choice(LENGTHS)
    rows = generator.choice((length, length, length, max(128, length // 4), 128, min(2 * length, 1 << 17)))
    fixed: dict[str, Any] = {
        "seqlen_q": rows,
        "seqlen_k": length,
        "head_dim": generator.choice((64, 128)),
        "dtype": generator.choice(("fp16", "fp16", "fp16", "bf16")),
        "causal": rows <= length and generator.random() < 0.4,
    }
    group = generator.choice((1, 1, 4, 8))
    for total in HEADS:
        heads = min(total, HEADS_OF_A_SEQUENCE)
        if not total % heads and not heads % group:
            yield fixed | {"batch": total // heads, "heads": heads, "kv_heads": heads // group}


def _decode_steps(generator: random.Random) -> Iterator[dict[str, Any]]:
    """One query of a sequence, or those of a draft; caches whole, ragged or in pages, some narrow, some windows."""
    length = generator.choice(LENGTHS)
    heads, kv_heads = generator.choice(SERVED_HEADS)
    fixed: dict[str, Any] = {
        "heads": heads,
        "kv_heads": kv_heads,
        "seqlen_q": generator.choice((1, 1, 1, 1, 1, 1, 2, 4)),
        "seqlen_k": length,
        "head_dim": generator.choice((64, 128, 128)),
        "dtype": generator.choice(("fp16", "bf16")),
        "causal": True,
        "window": generator.choice((0, 0, 0, 0, 0, 0, 0, 1024)),
        "kv_dtype": generator.choice(("", "", "", "", "fp8", "i8")),
        "page": generator.choice((0, 0, 0, 0, 16, 64, 256)) if length <= LONGEST_PAGED else 0,
    }
    ragged = generator.random() < RAGGED_SHARE
    for batch in BATCHES:
        shares = [generator.random() for _ in range(batch - 1)]
        lengths = (length, *(max(1, round(share * length)) for share in shares)) if ragged else ()
        yield fixed | {"batch": batch, "lengths": lengths}
