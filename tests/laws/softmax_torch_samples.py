"""Correct implementations in torch, with gradients; and the mistakes that one makes in a backward pass."""

from typing import Any

import torch

# Tensors are tiny: threads would only wait for each other.
torch.set_num_threads(1)

FAULTS = ("", "no rowsum", "scale forgotten", "transposed", "dV of the output", "weights without LSE")


def weights_and_lse(scores: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Weights, 0 in rows of -inf, and LSE."""
    maximum = scores.amax(-1, keepdim=True)
    p = torch.exp(scores - maximum.masked_fill(maximum == float("-inf"), 0.0))
    total = p.sum(-1, keepdim=True)
    lse = (maximum + total.log()).squeeze(-1)
    return p / total.masked_fill(total == 0.0, 1.0), lse


def softmax(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Softmax over the last axis, and LSE."""
    scores = x if x.dtype == torch.float64 else x.float()
    weights, lse = weights_and_lse(scores)
    return weights.to(x.dtype), lse


def attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, is_causal: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention with torch's autograd; a causal mask is aligned to the last key."""
    queries, keys, values = (t if t.dtype == torch.float64 else t.float() for t in (q, k, v))
    scores = queries @ keys.transpose(-1, -2) * q.shape[-1] ** -0.5
    if is_causal:
        rows, count = scores.shape[-2:]
        hidden = torch.ones(rows, count, dtype=torch.bool, device=q.device).triu(count - rows + 1)
        scores = scores.masked_fill(hidden, float("-inf"))
    weights, lse = weights_and_lse(scores)
    return (weights @ values).to(q.dtype), lse


attention.softmax_laws = {"causal": "last", "arrays": "torch"}  # type: ignore[attr-defined]


class _Flash(torch.autograd.Function):
    """Attention that keeps LSE and computes weights again in the backward pass, with a fault or none."""

    @staticmethod
    def forward(ctx: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, fault: str) -> Any:
        o, lse = attention(q, k, v)
        ctx.save_for_backward(q, k, v, o, lse)
        ctx.fault = fault
        ctx.mark_non_differentiable(lse)
        return o, lse

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor, _lse: Any) -> Any:
        q, k, v, o, lse = ctx.saved_tensors
        scale = q.shape[-1] ** -0.5
        base = torch.zeros_like(lse) if ctx.fault == "weights without LSE" else lse
        weights = torch.exp(q @ k.transpose(-1, -2) * scale - base[..., None])
        mean = (grad * o).sum(-1, keepdim=True)
        scores = weights * (grad @ v.transpose(-1, -2) - (0 if ctx.fault == "no rowsum" else mean))
        scale = 1.0 if ctx.fault == "scale forgotten" else scale
        dk = scores if ctx.fault == "transposed" and q.shape == k.shape else scores.transpose(-1, -2)
        dv = o if ctx.fault == "dV of the output" and q.shape == v.shape else weights.transpose(-1, -2) @ grad
        return scores @ k * scale, dk @ q * scale, dv, None


def flash(fault: str = "") -> Any:
    """Attention with a backward pass of its own. Args: fault: what is wrong with it, one of FAULTS."""

    def attention_with_backward(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
        return _Flash.apply(q, k, v, fault)

    return attention_with_backward
