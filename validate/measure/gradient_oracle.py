"""Whether the gradients that a pipeline wrote are right: KV heads with all their query heads, whole.

Gradients of keys are sums over all queries of a group, so that no part of a head will do; of many heads, some are
held against the reference, from the first to the last.
"""

from collections.abc import Mapping
from typing import Any

import torch

from ...kernels.backward.call import Gradients
from ...kernels.backward.reference import gradients, judge_gradients, plain
from ...kernels.reference import attention
from ...simulator.problems.attention_backward import AttentionBackwardProblem

CHECKED_SCORES = 1 << 30
"""Scores that are checked at most, of two KV heads at least."""
TF32_SUM_EPS = 2.0**-11
"""Of sums of products whose operands are cut to tf32."""


def gradient_error(problem: AttentionBackwardProblem, tensors: Mapping[str, torch.Tensor], *, stored: bool) -> float:
    """Largest error of dQ, dK and dV in units of what is allowed; above 1 is wrong.

    Args:
        tensors: by name of the programs' tensors, as (slabs, rows, columns).
        stored: as of `plain`.
    """
    most = CHECKED_SCORES // (problem.head_group * problem.seqlen_q * problem.seqlen_k)
    chosen = spread(problem.batch * problem.kv_heads, most)
    return max(_group_error(problem, tensors, kv_slab, stored) for kv_slab in chosen)


def spread(count: int, most: int) -> list[int]:
    """Numbers below a count: all, or at most `most` evenly spread ones; the first and the last always."""
    wanted = max(2, min(count, most))
    return [0] if count == 1 else list(dict.fromkeys(round(i * (count - 1) / (wanted - 1)) for i in range(wanted)))


def _group_error(
    problem: AttentionBackwardProblem, tensors: Mapping[str, torch.Tensor], kv_slab: int, stored: bool
) -> float:
    """Error of the gradients of one KV head, and of the query heads that share it."""
    group = problem.head_group
    mask: dict[str, Any] = {"causal": problem.causal, "window": problem.window}
    batch, kv_head = divmod(kv_slab, problem.kv_heads)
    first = batch * problem.heads + kv_head * group
    q, o, do, dq = (tensors[name][None, first : first + group] for name in ("Q", "O", "dO", "dQ"))
    k, v, dk, dv = (tensors[name][None, kv_slab : kv_slab + 1] for name in ("K", "V", "dK", "dV"))
    lse = attention(q, k, v, working=True, **mask).lse
    tf32 = problem.dtype == "fp32"
    # Head by head: fp64 scores of one head are what memory has room for.
    truths = [gradients(q[:, h : h + 1], k, v, do[:, h : h + 1], **mask) for h in range(group)]
    truth = Gradients(
        torch.cat([head.dq for head in truths], 1), sum(head.dk for head in truths), sum(head.dv for head in truths)
    )
    working = plain(q, k, v, o, lse, do, **mask, tf32=tf32, stored=stored)
    sum_eps = TF32_SUM_EPS if tf32 else torch.finfo(torch.float32).eps
    return max(
        verdict.error for verdict in judge_gradients(Gradients(dq, dk, dv), truth, working, sum_eps=sum_eps).values()
    )
