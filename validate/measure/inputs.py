"""Device memory for the tensors of a point: inputs that fit together, the same for the same point; the rest poison.

Inputs are random numbers; a mask lets through what the problem's does, tables have their values, and what a backward
pass is given of the forward (O, LSE, P) is computed from Q, K and V, where results matter.
"""

from collections.abc import Iterable

import numpy as np
import torch

from ...kernels.launch.launch import allocate
from ...kernels.reference import attention, visible_keys
from ...simulator.launch.program import Tensor
from ...simulator.problems.attention import AttentionProblem
from ...simulator.problems.attention_backward import AttentionBackwardProblem
from ...simulator.problems.problem import Problem
from .output_checks import poison

LARGEST_I8 = 127


def filled(
    tensors: Iterable[Tensor],
    problem: Problem,
    place: torch.device,
    generator: torch.Generator,
    *,
    forward: bool = True,
) -> dict[str, torch.Tensor]:
    """Memory by name.

    Args:
        tensors: of the launches' programs.
        generator: of random numbers, on that place.
        forward: whether what a backward pass is given of the forward is computed, or random.
    """
    memory = {tensor.name: _filled(tensor, problem, place, generator) for tensor in tensors}
    if forward and isinstance(problem, AttentionBackwardProblem) and "O" in memory:
        _forward(problem, memory)
    return memory


def _filled(tensor: Tensor, problem: Problem, place: torch.device, generator: torch.Generator) -> torch.Tensor:
    memory = allocate(tensor, place)
    if tensor.role != "input":
        poison([memory])
    elif tensor.values is None:
        _draw(memory, generator)
    if tensor.name == "MASK" and isinstance(problem, AttentionProblem):
        seen = visible_keys(problem.whole_mask, problem.seqlen_q, problem.seqlen_k, memory.device)
        memory.fill_(1)[..., : problem.seqlen_k] = seen
    return memory


def _draw(memory: torch.Tensor, generator: torch.Generator) -> None:
    """Fill memory with numbers of its type: normal ones, or all whole ones alike."""
    if not memory.is_floating_point():
        signed = memory.dtype == torch.int8
        memory.random_(-LARGEST_I8 if signed else 0, LARGEST_I8 + 1, generator=generator)
    elif memory.element_size() > 1:
        memory.normal_(generator=generator)
    else:
        for slab in memory:  # torch draws no fp8
            slab.copy_(torch.randn(slab.shape, generator=generator, device=memory.device))


def _forward(problem: AttentionBackwardProblem, memory: dict[str, torch.Tensor]) -> None:
    """What the forward pass leaves: O, LSE and, where it is kept, P."""
    q, k, v = (memory[name].unflatten(0, (problem.batch, -1)) for name in "QKV")
    o, lse, _ = attention(q, k, v, causal=problem.causal, window=problem.window, working=True)
    memory["O"].copy_(o.flatten(0, 1))
    if "LSE" in memory:
        memory["LSE"][..., 0] = lse.flatten(0, 1)
    if "P" in memory:
        hidden = ~visible_keys(problem.whole_mask, problem.seqlen_q, problem.seqlen_k, q.device)
        for slab, (b, h) in enumerate(np.ndindex(problem.batch, problem.heads)):
            scores = q[b, h].float() @ k[b, h // problem.head_group].float().T / problem.head_dim**0.5
            p = torch.exp(scores - lse[b, h][:, None]).masked_fill(hidden, 0.0)
            memory["P"][slab].zero_()[:, : problem.seqlen_k] = p
