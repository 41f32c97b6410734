"""Problems that `validate` measures which have names, by which schedules list them; `draws` has others."""

from collections.abc import Mapping
from typing import Any

from ...simulator.problems.problem import Problem
from ...simulator.schedules.contract import Schedule

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
    "documents": {
        "batch": 2,
        "heads": 16,
        "kv_heads": 4,
        "seqlen_q": 4096,
        "seqlen_k": 4096,
        "head_dim": 128,
        "dtype": "bf16",
        "causal": True,
        "mask": "documents:1500,1000,700,500,300,96",
    },
    "narrow values": {
        "batch": 1,
        "heads": 32,
        "seqlen_q": 4096,
        "seqlen_k": 4096,
        "head_dim": 192,
        "head_dim_v": 128,
        "dtype": "bf16",
        "causal": True,
    },
    "latents": {"batch": 16, "heads": 128, "seqlen_q": 1, "seqlen_k": 8192, "dtype": "bf16"},
    "latents of a part": {"batch": 4, "heads": 16, "seqlen_q": 1, "seqlen_k": 16384, "dtype": "bf16", "page": 64},
}
"""Shapes of the short list, by the names that schedules list them by (`schedules.coverage`)."""


def problem_for(schedule: Schedule, shape: Mapping[str, Any]) -> Problem:
    """The problem of a schedule that has a shape.

    Args:
        shape: fields of an attention problem; those that the schedule's problem has no choice of are as it has them.
    """
    kind = schedule.problem
    return kind(**{name: value for name, value in shape.items() if name in kind.given()})
