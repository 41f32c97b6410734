"""Other people's attention under the same harness: torch's SDPA backends, flash-attn where installed, and torch eager.

What really ran is told by the names of the kernels, not by what was asked for: a peer that falls back is named.
"""

import warnings
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from ...simulator.problems.attention import AttentionProblem
from ...simulator.problems.problem import Problem
from ..measure.process import Unavailable

if TYPE_CHECKING:
    import torch

PEERS = {
    "sdpa-flash": "flash",
    "sdpa-efficient": "efficient",
    "sdpa-cudnn": "cudnn",
    "sdpa-math": "math",
    "sdpa": "",
    "flash-attn": "flash-attn",
    "eager": "math",
}
"""Name of a peer -> the family of kernels that it should run (see `kernel_runs`); `sdpa` alone lets torch choose."""
BACKENDS = {
    "sdpa-flash": "FLASH_ATTENTION",
    "sdpa-efficient": "EFFICIENT_ATTENTION",
    "sdpa-cudnn": "CUDNN_ATTENTION",
    "sdpa-math": "MATH",
}


def why_not(peer: str, problem: Problem) -> str | None:
    """Why a peer cannot be asked for a problem, before anything runs; None where it can.

    Raises:
        ValueError: there is no such peer.
    """
    if peer not in PEERS:
        raise ValueError(f"peer = {peer!r}: must be one of {', '.join(PEERS)}")
    if type(problem) is not AttentionProblem:
        return f"{peer} computes attention, not {problem.KIND}"
    if problem.window:
        return f"{peer} is not asked for windows"
    if peer == "flash-attn" and find_spec("flash_attn") is None:
        return "flash-attn is not installed"
    if problem.dtype not in ("fp16", "bf16", "fp32") or (peer == "flash-attn" and problem.dtype == "fp32"):
        return f"{peer} does not take {problem.dtype}"
    if problem.causal and problem.seqlen_q != problem.seqlen_k and peer.startswith("sdpa"):
        return "SDPA aligns the causal mask to the first key where M != N, the problem to the last"
    return None


def fallback(peer: str, family: str) -> str | None:
    """That another implementation ran than was asked for, in one line; None where it did not."""
    wanted = PEERS[peer]
    return f"{peer} fell back: {family} kernels ran" if wanted and family != wanted else None


def runner(
    peer: str, problem: AttentionProblem, q: "torch.Tensor", k: "torch.Tensor", v: "torch.Tensor"
) -> Callable[[], "torch.Tensor"]:
    """A function that enqueues one forward pass of a peer and returns O (B, H, M, D).

    Args:
        q: (B, H, M, D).
        k, v: (B, G, N, D); on a GPU.

    Raises:
        Unavailable: the peer refuses the problem; this is tried once.
    """
    reason = why_not(peer, problem)
    if reason:
        raise Unavailable(reason)
    run = _RUNNERS.get(peer, _sdpa)(peer, problem, q, k, v)
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always")
        try:
            run()
        except RuntimeError as error:
            if "out of memory" in str(error) or "CUDA error" in str(error):
                raise  # no refusal: something broke
            why = refusal([str(warning.message) for warning in raised]) or str(error).splitlines()[0]
            raise Unavailable(f"{peer}: {why[:200]}") from None
    return run


def refusal(messages: Sequence[str]) -> str | None:
    """Why torch refuses a backend, from its warnings: a heading, the reason, and that the others are turned off."""
    texts = [text.split("(Triggered internally")[0].strip() for text in messages]
    reasons = [text for text in texts if not text.endswith("because:") and "disabled" not in text]
    return reasons[0] if reasons else None


def _sdpa(peer: str, problem: AttentionProblem, q: Any, k: Any, v: Any) -> Callable[[], Any]:
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    options = {"is_causal": problem.causal, "dropout_p": problem.dropout, "enable_gqa": problem.head_group > 1}
    attention = torch.nn.functional.scaled_dot_product_attention
    if peer not in BACKENDS:
        return lambda: attention(q, k, v, **options)
    backend = getattr(SDPBackend, BACKENDS[peer])

    def run() -> Any:
        with sdpa_kernel(backend):
            return attention(q, k, v, **options)

    return run


def _flash_attn(peer: str, problem: AttentionProblem, q: Any, k: Any, v: Any) -> Callable[[], Any]:
    flash_attn_func = import_module("flash_attn").flash_attn_func
    # It takes (B, M, H, D), and any strides.
    turned = [x.transpose(1, 2).contiguous() for x in (q, k, v)]
    options = {"causal": problem.causal, "dropout_p": problem.dropout}
    return lambda: flash_attn_func(*turned, **options).transpose(1, 2)


def _eager(peer: str, problem: AttentionProblem, q: Any, k: Any, v: Any) -> Callable[[], Any]:
    """Standard attention as people write it, an operation a line: product, scale, mask, softmax, dropout, product."""
    import torch

    scale = problem.head_dim**-0.5
    grouped = (
        problem.batch,
        problem.kv_heads,
        -1,
    )  # query heads that share keys are rows of one product: no copies of K
    per_head = (problem.batch, problem.heads, problem.seqlen_q, -1)
    hidden = None
    if problem.causal:
        everything = torch.ones((problem.seqlen_q, problem.seqlen_k), dtype=torch.bool, device=q.device)
        hidden = everything.triu(problem.seqlen_k - problem.seqlen_q + 1)

    def run() -> Any:
        scores = (q.view(*grouped, problem.head_dim) @ k.transpose(-2, -1)).view(per_head) * scale
        if hidden is not None:
            scores = scores.masked_fill(hidden, float("-inf"))
        p = torch.softmax(scores, -1)
        if problem.dropout:
            p = torch.nn.functional.dropout(p, problem.dropout)
        return (p.view(*grouped, problem.seqlen_k) @ v).view(per_head)

    return run


_RUNNERS = {"flash-attn": _flash_attn, "eager": _eager}
