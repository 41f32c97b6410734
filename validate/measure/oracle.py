"""Whether what a pipeline wrote is right: its outputs held against the reference, whole or in evenly spread parts.

A part is some rows of one head. Under a causal mask these rows see a prefix of the keys,
so a part is a smaller problem of the same kind, and no score matrix has to be held as a whole.
Of a backward pass a part is all heads that share a KV head (`gradient_error`).
"""

from collections.abc import Mapping
from dataclasses import replace
from math import inf, log
from typing import Any

import torch

from ...kernels.backward.call import Gradients
from ...kernels.backward.reference import gradients, judge_gradients, plain
from ...kernels.launch.launch import Roundings
from ...kernels.launch.registry import roundings_of
from ...kernels.reference import attention, judge_attention, judge_softmax
from ...simulator.integers import cdiv
from ...simulator.launch.program import Launch
from ...simulator.problems.attention import AttentionProblem
from ...simulator.problems.attention_backward import AttentionBackwardProblem
from ...simulator.problems.latent_attention import LatentAttentionProblem
from ...simulator.problems.problem import Problem
from ...simulator.problems.softmax import SoftmaxProblem
from ...simulator.schedules.registry import find_schedule

PART_SCORES = 1 << 26
"""Scores of a part: half a gigabyte in fp64, of which the reference holds a few."""
CHECKED_SCORES = 1 << 30
"""Scores that are checked at most; of larger problems, parts from the first rows of the first head to the last."""
MOST_PARTS = 256
"""Parts that are checked at most: a part of a step of decoding is one row, and takes as long as one of many scores."""

Part = tuple[int, int, int, int]
"""Sequence, query head, first row, row after the last."""


def oracle_error(schedule: str, problem: Problem, launch: Launch, tensors: Mapping[str, torch.Tensor]) -> float:
    """Largest error of the outputs of a pipeline in units of what is allowed; above 1 is wrong.

    Args:
        launch: the last of the pipeline.
        tensors: by name of the program's tensors, as (slabs, rows, columns).
    """
    problem = find_schedule(schedule).problem.of(problem)
    if isinstance(problem, SoftmaxProblem):
        return max(_softmax_error(problem, launch, tensors, part) for part in parts(problem))
    if isinstance(problem, AttentionBackwardProblem):
        return gradient_error(problem, tensors, stored=roundings_of(schedule).scores > 0)
    if not isinstance(problem, AttentionProblem):
        raise ValueError(f"problem = {problem.KIND}: there is no reference of what is right")
    lse = None
    if "LSE" in tensors:
        lse = tensors["LSE"][..., 0]
    elif "MAX" in tensors:
        lse = (tensors["MAX"][..., 0] + tensors["L"][..., 0].log2()) * log(2)
    roundings = roundings_of(schedule)
    if roundings.output_each_key_tile:
        tiles = cdiv(problem.seqlen_k, int(launch.constants["block_n"]))
        roundings = replace(roundings, outputs=roundings.outputs + tiles)
    return max(_part_error(roundings, problem, tensors, lse, part) for part in parts(problem))


def cached(
    problem: AttentionProblem, tensors: Mapping[str, torch.Tensor], part: Part
) -> tuple[torch.Tensor, torch.Tensor]:
    """K and V that the head of a part sees, (keys of its sequence, D and D_v) in the dtype of Q; out of pages, if any.

    Args:
        tensors: as `oracle_error`'s; of latents C is K, and the first part of its rows V.
    """
    batch, head, _, _ = part
    kv_head, length = head // problem.head_group, problem.key_lengths[batch]

    def rows(name: str) -> torch.Tensor:
        if not problem.page:
            return tensors[name][batch * problem.kv_heads + kv_head, :length].to(tensors["Q"].dtype)
        numbers = tensors["TABLE"][0, batch, 1 : 1 + cdiv(length, problem.page)].long()
        pages = tensors[name].view(-1, problem.page, problem.kv_heads, problem.head_dim)
        return pages[numbers, :, kv_head].reshape(-1, problem.head_dim)[:length].to(tensors["Q"].dtype)

    if isinstance(problem, LatentAttentionProblem):
        latents = rows("C")
        return latents, latents[:, : problem.latent_dim]
    return rows("K"), rows("V")


def parts(
    problem: AttentionProblem | SoftmaxProblem, part_scores: int | None = None, checked: int = CHECKED_SCORES
) -> list[Part]:
    """All rows of all heads in parts, or evenly spread ones where there are too many; the first and the last always.

    Args:
        part_scores: in the place of `PART_SCORES`.
        checked: scores at most, of all parts.
    """
    rows = max(1, min(problem.seqlen_q, (part_scores or PART_SCORES) // problem.seqlen_k))
    if isinstance(problem, AttentionProblem) and problem.mask:
        rows = problem.seqlen_q  # whole heads: rows of other masks see no prefix
    a_head = cdiv(problem.seqlen_q, rows)
    count = problem.batch * problem.heads * a_head
    chosen = []
    for number in spread(count, min(MOST_PARTS, checked // (rows * problem.seqlen_k))):
        slab, place = divmod(number, a_head)
        batch, head = divmod(slab, problem.heads)
        chosen.append((batch, head, place * rows, min(problem.seqlen_q, (place + 1) * rows)))
    return chosen


def _part_error(
    roundings: Roundings,
    problem: AttentionProblem,
    tensors: Mapping[str, torch.Tensor],
    lse: torch.Tensor | None,
    part: Part,
) -> float:
    """Error of one part. Args: tensors: as `oracle_error`'s; lse: (slabs, rows)."""
    batch, head, first, last = part
    slab, length = batch * problem.heads + head, problem.key_lengths[batch]
    o, k_and_v = tensors["O"], cached(problem, tensors, part)
    aligned = problem.causal and not problem.mask
    keys = min(length, last + length - problem.seqlen_q) if aligned else length

    def rows(tensor: torch.Tensor) -> torch.Tensor:
        return tensor[slab, first:last][None, None]

    blind = max(0, problem.seqlen_q - length - first) if aligned else 0
    if bool((rows(o)[..., :blind, :] != 0).any()):
        return inf  # rows that see no key are exactly 0
    if keys <= 0:
        return 0.0
    options: dict[str, Any] = {"causal": problem.causal, "window": problem.window, "tf32": problem.dtype == "fp32"}
    options |= {"score_roundings": roundings.scores, "output_roundings": roundings.outputs}
    options |= {"mask": problem.mask, "softcap": problem.softcap}
    if problem.sinks:
        options["sinks"] = tensors["SINKS"].flatten()[head : head + 1]
    if problem.dropout:
        options |= {"keep": rows(tensors["DROP_MASK"])[..., :keys], "dropout": problem.dropout}
    verdicts = judge_attention(
        rows(o),
        None if lse is None else rows(lse),
        rows(tensors["Q"]),
        *(x[:keys][None, None] for x in k_and_v),
        **options,
    )
    return max(verdict.error for verdict in verdicts)


def _softmax_error(problem: SoftmaxProblem, launch: Launch, tensors: Mapping[str, torch.Tensor], part: Part) -> float:
    batch, head, first, last = part
    y, x = (tensors[name][batch * problem.heads + head, first:last][None, None] for name in "YX")
    safe = launch.name != "naive_softmax"
    return judge_softmax(y, x, block_n=int(launch.constants["block_n"]), safe=safe).error


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
