"""Naive attention backward in Triton: the twins of its schedule in `simulator/schedules/backward/`."""

import torch

from ..simulator.device.device import Device
from ..simulator.schedules.config import Config
from .backward.call import Gradients, backward
from .backward.stored_scores import (
    grad_probabilities_kernel,
    grad_scores_kernel,
    probabilities_kernel,
    transposed_product_kernel,
)
from .flash_backward import TWINS as FUSED_TWINS
from .launch.launch import Roundings, twin_of
from .naive import output_kernel

ROUNDINGS = Roundings(scores=1)
"""P, dP and dS are stored."""
TWINS = {
    "delta": FUSED_TWINS["delta"],
    "probabilities": twin_of(probabilities_kernel),
    "value_gradients": twin_of(transposed_product_kernel),
    "grad_probabilities": twin_of(grad_probabilities_kernel),
    "grad_scores": twin_of(grad_scores_kernel),
    "naive_query_gradients": twin_of(output_kernel),
    "naive_key_gradients": twin_of(transposed_product_kernel),
}


def naive_backward(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    o: torch.Tensor,
    lse: torch.Tensor,
    do: torch.Tensor,
    p: torch.Tensor | None = None,
    *,
    causal: bool = False,
    config: Config | None = None,
    device: Device | str | None = None,
) -> Gradients:
    """The gradients of attention by a kernel for every product; P, dP and dS go through device memory.

    Args:
        q, o, do: (B, H, M, D); k, v: (B, G, N, D); contiguous, fp16, bf16 or fp32 (multiplied as tf32), on one GPU.
        lse: (B, H, M), fp32, natural logarithm, as the forward pass returns it.
        p: (B * H, M, pitch) as `naive` leaves it, in the dtype of q; made again from q, k and lse where None.
        causal: whether the mask is causal, aligned to the last key.
        config: block sizes, warps and stages; the schedule's default where None.
        device: catalogue name or `Device` for the schedule; that of the tensors where None.

    Returns:
        dQ, dK and dV in the shapes and the dtype of q, k and v.

    Raises:
        ValueError: tensors or configuration that the kernels cannot take; one line.
    """
    given = {"q": q, "k": k, "v": v, "o": o, "lse": lse, "do": do} | ({} if p is None else {"p": p})
    asked = (config or Config()).but(recomputed=int(p is None))
    return backward("naive_backward", TWINS, given, causal=causal, window=0, config=asked, device=device)
