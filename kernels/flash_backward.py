"""FlashAttention-2 backward in Triton: the twins of its schedule in `simulator/schedules/backward/`.

They are in `backward/`: rows (delta, zeros, conversion), key tiles (dK, dV; dQ in one pass) and query tiles (dQ).
"""

import torch

from ..simulator.device.device import Device
from ..simulator.schedules.config import Config
from .backward.call import Gradients, backward
from .backward.key_tile import gradients_kernel, key_gradients_kernel, ordered_gradients_kernel
from .backward.query_tile import query_gradients_kernel
from .backward.rows import convert_kernel, delta_kernel, prepare_kernel, prepare_ordered_kernel
from .launch.launch import twin_of

TWINS = {
    "delta": twin_of(delta_kernel),
    "prepare": twin_of(prepare_kernel),
    "prepare_ordered": twin_of(prepare_ordered_kernel),
    "key_gradients": twin_of(key_gradients_kernel),
    "gradients": twin_of(gradients_kernel),
    "ordered_gradients": twin_of(ordered_gradients_kernel),
    "query_gradients": twin_of(query_gradients_kernel),
    "convert": twin_of(convert_kernel),
}


def flash_backward(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    o: torch.Tensor,
    lse: torch.Tensor,
    do: torch.Tensor,
    *,
    causal: bool = False,
    window: int = 0,
    config: Config | None = None,
    device: Device | str | None = None,
) -> Gradients:
    """The gradients of attention by FlashAttention-2.

    Args:
        q, o, do: (B, H, M, D); k, v: (B, G, N, D); contiguous, fp16, bf16 or fp32 (multiplied as tf32), on one GPU.
        lse: (B, H, M), fp32, natural logarithm, as the forward pass returns it.
        causal: whether the mask is causal, aligned to the last key; window: keys that a query sees at most, 0 for all.
        config: block sizes, warps, stages, form, order; the schedule's default where None.
        device: catalogue name or `Device` for the schedule; that of the tensors where None.

    Returns:
        dQ, dK and dV in the shapes and the dtype of q, k and v.

    Raises:
        ValueError: tensors or configuration that the kernels cannot take; one line.
    """
    given = {"q": q, "k": k, "v": v, "o": o, "lse": lse, "do": do}
    return backward("flash_backward", TWINS, given, causal=causal, window=window, config=config, device=device)
