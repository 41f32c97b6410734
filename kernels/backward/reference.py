"""The oracle of gradients: torch's own derivative in fp64 for the truth, and the plain computation for the tolerance.

A gradient is right if its error against fp64 is at most twice that of the same computation done plainly in the
kernel's own precision, from the same O and LSE, plus one rounding of the output and what fp32 sums are off by
(`SUM_ROUNDINGS`) of the magnitudes that go into it: dS is a difference of numbers that may be far larger.
"""

from typing import Any, NamedTuple

import torch

from ...simulator.problems.mask import Mask
from ..reference import Verdict, judge, operand_of, visible_keys
from .call import Gradients

SUM_ROUNDINGS = 8
"""Roundings of a number in fp32 on its way into dS: score, exponent, exponential, dP, delta, difference, product."""


def gradients(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, do: torch.Tensor, *, causal: bool = False, window: int = 0
) -> Gradients:
    """The gradients by torch's automatic derivative of attention in fp64. Args: as of `flash_backward`."""
    leaves = [x.double().requires_grad_() for x in (q, k, v)]
    queries, keys, values = leaves[0], *(x.repeat_interleave(q.shape[1] // k.shape[1], dim=1) for x in leaves[1:])
    seen = visible_keys(Mask(causal=causal or window > 0, window=window), q.shape[2], k.shape[2], q.device)
    scores = (queries @ keys.mT / q.shape[3] ** 0.5).masked_fill(~seen, -1e300)
    o = (torch.softmax(scores, dim=-1) * seen) @ values
    return Gradients(*torch.autograd.grad(o, leaves, do.double()))


class Plain(NamedTuple):
    """Gradients computed plainly, and the magnitudes of what is added up for each, both as `Gradients`."""

    values: Gradients
    magnitudes: Gradients


def plain(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    o: torch.Tensor,
    lse: torch.Tensor,
    do: torch.Tensor,
    *,
    causal: bool = False,
    window: int = 0,
    tf32: bool = False,
    stored: bool = False,
) -> Plain:
    """The formulas of the backward pass in the working precision; a head at a time.

    Args:
        tf32: whether operands in fp32 are cut as tensor cores cut them; stored: whether P, dP and dS are rounded to
            the dtype of q by storing them, dS with its scale; the rest as of `flash_backward`.
    """

    def operand(x: torch.Tensor) -> torch.Tensor:
        return operand_of(x.to(q.dtype), torch.float32, tf32)

    group, scale = q.shape[1] // k.shape[1], q.shape[3] ** -0.5
    seen = visible_keys(Mask(causal=causal or window > 0, window=window), q.shape[2], k.shape[2], q.device)
    sums = [[torch.zeros(x.shape, device=q.device) for x in (q, k, v)] for _ in range(2)]
    (dq, dk, dv), (mq, mk, mv) = sums
    for b, h in ((b, h) for b in range(q.shape[0]) for h in range(q.shape[1])):
        kv = b, h // group
        qh, kh, vh, oh, gh = operand(q[b, h]), operand(k[kv]), operand(v[kv]), o[b, h].float(), operand(do[b, h])
        scores = qh @ kh.T * scale
        p = torch.exp(scores - lse[b, h][:, None]).masked_fill(~seen, 0.0)
        dp, delta = gh @ vh.T, (oh * do[b, h].float()).sum(-1, keepdim=True)
        if stored:
            p, dp = p.to(q.dtype).float(), dp.to(q.dtype).float()
        ds = operand(p * (dp - delta) * (scale if stored else 1.0))
        rest = 1.0 if stored else scale
        dq[b, h] = ds @ kh * rest
        dk[kv] += ds.T @ qh * rest
        dv[kv] += operand(p).T @ gh
        size = p * (gh.abs() @ vh.abs().T + (oh * do[b, h].float()).abs().sum(-1, keepdim=True)) * scale
        size, shares = size * (1.0 + scores.abs()), p * (1.0 + scores.abs())
        mq[b, h] = size @ kh.abs()
        mk[kv] += size.T @ qh.abs()
        mv[kv] += shares.T @ gh.abs()
    return Plain(Gradients(*(x.to(q.dtype) for x in sums[0])), Gradients(*sums[1]))


def judge_gradients(
    actual: Gradients, truth: Gradients, working: Plain, *, sum_eps: float = torch.finfo(torch.float32).eps
) -> dict[str, Verdict]:
    """Verdicts on dq, dk and dv. Args: truth: by `gradients`; working: by `plain`; sum_eps: precision of products."""
    parts: Any = zip(Gradients._fields, actual, truth, working.values, working.magnitudes, strict=True)
    return {
        name: judge(given, true, value, ulps=1, floor=SUM_ROUNDINGS * sum_eps * size.amax(dim=(2, 3)))
        for name, given, true, value, size in parts
    }
