"""The way in: what the kernel takes, and what is said where it cannot. Gluon is imported no sooner than it is used."""

import torch

from ...simulator.problems.attention_backward import AttentionBackwardProblem
from ...simulator.schedules.registry import default_schedule
from ..backward.call import Gradients, problem_of_backward
from ..flash3.entry import gpu_lacks

DIMS = (64, 128)
DTYPES = (torch.float16, torch.bfloat16)


def flash3_backward(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    o: torch.Tensor,
    lse: torch.Tensor,
    do: torch.Tensor,
    *,
    causal: bool = False,
) -> Gradients:
    """The gradients of attention in one pass, on GPUs of compute capability 9.0.

    Args:
        q, o, do: (B, H, M, D); k, v: (B, G, N, D); contiguous, fp16 or bf16, D = 64 or 128, on one GPU.
        lse: (B, H, M), fp32, natural logarithm, as the forward pass returns it.
        causal: whether the mask is causal, aligned to the last key.

    Returns:
        dQ, dK and dV in the shapes and the dtype of q, k and v. Key tiles add to dQ in any order: its last bits differ
        from run to run; those of `flash_backward` with two kernels, or deterministic, do not.

    Raises:
        ValueError: a GPU or tensors that the kernel cannot take; one line.
    """
    given = {"q": q, "k": k, "v": v, "o": o, "lse": lse, "do": do}
    problem = problem_of_backward(given, causal=causal, window=0)
    if reason := why_not(q):
        raise ValueError(reason)
    from .call import prepare

    with torch.cuda.device(q.device):
        launch = prepare(given, problem)
        launch.run()
    return launch.gradients


def instead() -> str:
    """What takes the rest."""
    return f"use {default_schedule(AttentionBackwardProblem)}"


def why_not(q: torch.Tensor) -> str:
    """Why the kernel cannot take tensors of that kind, in one line; empty where it can."""
    return gpu_lacks(q.device, "flash3_backward", instead()) or refused(q.dtype, q.shape[-1])


def refused(dtype: torch.dtype, head_dim: int) -> str:
    """Why the kernel has no such element type or head dimension; empty where it has."""
    if dtype not in DTYPES:
        known = ", ".join(str(known).removeprefix("torch.") for known in DTYPES)
        return f"q has dtype {str(dtype).removeprefix('torch.')}: flash3_backward has {known}: {instead()}"
    if head_dim not in DIMS:
        return f"head_dim is {head_dim}: flash3_backward has {', '.join(map(str, DIMS))}: {instead()}"
    return ""
