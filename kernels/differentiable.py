"""Attention whose gradients torch finds: flash3 or flash2 forward, flash3_backward or flash_backward back."""

from typing import Any

import torch

from ..simulator.schedules.config import Config
from .flash2 import flash2
from .flash3 import Options, flash3
from .flash3.entry import why_not
from .flash3_backward.entry import flash3_backward
from .flash3_backward.entry import why_not as why_not_backward
from .flash_backward import flash_backward

WIDE_ENOUGH = ((64, 64), (128, 128))
"""Head dimensions at which both forward kernels are measured, and flash3 is the faster (docs/kernel-speed.md)."""
TILE_ROWS = 128


def attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    window: int = 0,
    config: Config | Options | None = None,
    backward_config: Config | None = None,
) -> torch.Tensor:
    """Attention, to be differentiated once.

    Args:
        q: (B, H, M, D); k, v: (B, G, N, D); contiguous, fp16, bf16 or fp32 (multiplied as tf32), on one GPU.
        causal: whether the mask is causal, aligned to the last key; window: keys that a query sees at most, 0 for all.
        config: of the forward pass: a `Config` of `flash2`, `Options` of `flash3`, or None for the faster of both
            (`takes_flash3`).
        backward_config: of the backward pass: a `Config` of `flash_backward`, or None for the faster of it and
            `flash3_backward` (`takes_flash3_backward`), whose dQ differs in its last bits from run to run.

    Returns:
        O (B, H, M, D) in the dtype of q. Until the backward pass, Q, K, V, O and LSE stay in memory.

    Raises:
        ValueError: tensors or a configuration that the kernels cannot take; one line.
    """
    o: torch.Tensor = _Attention.apply(q, k, v, causal, window, config, backward_config)
    return o


def takes_flash3(q: torch.Tensor, v: torch.Tensor) -> bool:
    """Whether flash3 is at least as fast as flash2 by the measured table, where it can take the tensors at all.

    It is from one tile of 128 queries for each SM on: with fewer, smaller tiles use more of the GPU.
    """
    if (q.shape[-1], v.shape[-1]) not in WIDE_ENOUGH or why_not(q, v):
        return False
    sms = int(torch.cuda.get_device_properties(q.device).multi_processor_count)
    return enough_tiles(q.shape[0] * q.shape[1], q.shape[2], sms)


def takes_flash3_backward(q: torch.Tensor, k: torch.Tensor, window: int) -> bool:
    """Whether flash3_backward is faster than flash_backward by the measured table, where it can take the tensors.

    It is from one tile of 128 keys for each SM on.
    """
    if window or why_not_backward(q):
        return False
    sms = int(torch.cuda.get_device_properties(q.device).multi_processor_count)
    return enough_tiles(k.shape[0] * k.shape[1], k.shape[2], sms)


def enough_tiles(slabs: int, rows: int, sms: int) -> bool:
    """Whether every SM gets a tile of 128 rows. Args: slabs: sequences times heads; rows: of each."""
    return slabs * (rows // TILE_ROWS) >= sms


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(
        context: Any,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        causal: bool,
        window: int,
        config: Config | Options | None,
        backward_config: Config | None,
    ) -> torch.Tensor:
        if isinstance(config, Options) or (config is None and takes_flash3(q, v)):
            o, lse = flash3(q, k, v, causal=causal, window=window, options=config)
        else:
            o, lse = flash2(q, k, v, causal=causal, window=window, config=config)
        context.save_for_backward(q, k, v, o, lse)
        context.options = {"causal": causal, "window": window}
        context.backward_config = backward_config
        return o

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(context: Any, do: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        q, k, v, o, lse = context.saved_tensors
        given, options, config = (q, k, v, o, lse, do.contiguous()), context.options, context.backward_config
        if config is None and takes_flash3_backward(q, k, options["window"]):
            dq, dk, dv = flash3_backward(*given, causal=options["causal"])
        else:
            dq, dk, dv = flash_backward(*given, **options, config=config)
        return dq, dk, dv, None, None, None, None
