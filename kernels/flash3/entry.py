"""The way in: what the kernel takes, and what is said where it cannot. Gluon is imported no sooner than it is used."""

import torch
import triton

from ...simulator.schedules.registry import DEFAULT_SCHEDULE
from ..launch.launch import problem_of
from .options import Options

DIMS = ((64, 64), (128, 128), (256, 256), (192, 128))
"""Head dimensions of Q and K, and of V."""
DTYPES = (torch.float16, torch.bfloat16, torch.float8_e4m3fn)
CAPABILITY = (9, 0)
TRITON = "3.6"
"""The minor version of Triton whose Gluon the kernel is written in."""


def flash3(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    window: int = 0,
    softcap: float = 0.0,
    scales: tuple[float | torch.Tensor, ...] = (1.0, 1.0, 1.0),
    options: Options | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention by FlashAttention-3's division of work, on GPUs of compute capability 9.0.

    Args:
        q: (B, H, M, D); k: (B, G, N, D); v: (B, G, N, D_v): contiguous, of one dtype, fp16, bf16 or fp8 (e4m3); D and
            D_v are 64, 128 or 256, or 192 and 128.
        causal: whether the mask is causal, aligned to the last key; window: keys that a query sees at most, 0 for all.
        softcap: scores are cap * tanh(score / cap); 0: as they are.
        scales: what the numbers of q, k and v in fp8 are to be multiplied by, above 0: a number for all, or an fp32
            tensor (B, heads, ceil(length / 128)), a number for every 128 rows of a head.
        options: tiles, buffers and order; those of the fastest kernel measured where None.

    Returns:
        O (B, H, M, D_v) in the dtype of q (bf16 where that is fp8), and LSE (B, H, M) in fp32, natural logarithm; of a
        row that sees no key 0 and -inf.

    Raises:
        ValueError: a GPU, tensors or options that the kernel cannot take; one line.
    """
    problem = problem_of(q, k, v, causal=causal, window=window, head_dim_v=v.shape[-1], softcap=softcap)
    if reason := why_not(q, v):
        raise ValueError(reason)
    from .call import prepare

    sms = torch.cuda.get_device_properties(q.device).multi_processor_count
    with torch.cuda.device(q.device):
        launch = prepare(q, k, v, problem, scales=scales, options=options, sms=sms)
        launch.run()
    return launch.o, launch.lse


def why_not(q: torch.Tensor, v: torch.Tensor) -> str:
    """Why the kernel cannot take tensors of that kind, in one line; empty where it can."""
    lacking = gpu_lacks(q.device, "flash3", f"use {DEFAULT_SCHEDULE}")
    return lacking or refused(q.dtype, q.shape[-1], v.shape[-1])


def gpu_lacks(device: torch.device, kernel: str, instead: str) -> str:
    """Why a kernel in the Gluon of Hopper cannot run on a device, in one line; empty where it can."""
    if device.type != "cuda":
        return f"tensors are on {device}: {kernel} needs a CUDA GPU of compute capability 9.0: {instead}"
    capability = torch.cuda.get_device_capability(device)
    if capability != CAPABILITY:
        name = torch.cuda.get_device_name(device)
        return f"{name} has compute capability {capability[0]}.{capability[1]}: {kernel} needs 9.0 (Hopper): {instead}"
    if not triton.__version__.startswith(f"{TRITON}."):
        return f"triton {triton.__version__} is installed: {kernel} is written in the Gluon of {TRITON}: {instead}"
    return ""


def refused(dtype: torch.dtype, head_dim: int, out_dim: int) -> str:
    """Why the kernel has no such element type or head dimension; empty where it has."""
    if dtype not in DTYPES:
        known = ", ".join(str(known).removeprefix("torch.") for known in DTYPES)
        name = str(dtype).removeprefix("torch.")
        return f"q has dtype {name}: flash3 has {known}: use {DEFAULT_SCHEDULE}"
    if (head_dim, out_dim) not in DIMS:
        known = ", ".join(f"{dim} and {out}" for dim, out in DIMS)
        return f"head_dim is {head_dim}, of v {out_dim}: flash3 has {known}: use {DEFAULT_SCHEDULE}"
    return ""
