"""Attention whose gradients torch finds: flash2 forward, flash_backward for the derivative."""

from typing import Any

import torch

from ..simulator.schedules.config import Config
from .flash2 import flash2
from .flash_backward import flash_backward


def attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    window: int = 0,
    config: Config | None = None,
    backward_config: Config | None = None,
) -> torch.Tensor:
    """Attention by FlashAttention-2, to be differentiated once.

    Args:
        q: (B, H, M, D); k, v: (B, G, N, D); contiguous, fp16, bf16 or fp32 (multiplied as tf32), on one GPU.
        causal: whether the mask is causal, aligned to the last key; window: keys that a query sees at most, 0 for all.
        config: of the forward pass, `flash2`; backward_config: of the backward pass, `flash_backward`.

    Returns:
        O (B, H, M, D) in the dtype of q. Until the backward pass, Q, K, V, O and LSE stay in memory.

    Raises:
        ValueError: tensors or a configuration that the kernels cannot take; one line.
    """
    o: torch.Tensor = _Attention.apply(q, k, v, causal, window, config, backward_config)
    return o


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(
        context: Any,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        causal: bool,
        window: int,
        config: Config | None,
        backward_config: Config | None,
    ) -> torch.Tensor:
        o, lse = flash2(q, k, v, causal=causal, window=window, config=config)
        context.save_for_backward(q, k, v, o, lse)
        context.options = {"causal": causal, "window": window, "config": backward_config}
        return o

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(context: Any, do: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        q, k, v, o, lse = context.saved_tensors
        dq, dk, dv = flash_backward(q, k, v, o, lse, do.contiguous(), **context.options)
        return dq, dk, dv, None, None, None, None
