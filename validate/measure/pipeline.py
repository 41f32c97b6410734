"""A point on a GPU: its tensors, its kernels, one pass through its launches, and the memory that this takes.

Outputs and scratch begin as poison (`filled`), so that what no kernel wrote shows. Inputs are random
numbers, the same for the same point; a mask lets through what the problem's does, tables have their values, and what a
backward pass is given of the forward (O, LSE, P) is computed from Q, K and V, where results matter.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ...kernels.launch.launch import TritonKernel, allocate, run
from ...kernels.launch.registry import find_twin
from ...kernels.reference import attention, visible_keys
from ...simulator.launch.program import Launch, Tensor
from ...simulator.problems.attention import AttentionProblem
from ...simulator.problems.attention_backward import AttentionBackwardProblem
from ...simulator.problems.problem import Problem
from .output_checks import poison

SEED = 20_26
CUDA = torch.device("cuda")
LARGEST_I8 = 127


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The launches of a point, ready to run. Args: launches; twins: one each; problem; tensors: by name."""

    launches: tuple[Launch, ...]
    twins: tuple[TritonKernel, ...]
    problem: Problem
    tensors: dict[str, torch.Tensor]

    @property
    def outputs(self) -> list[torch.Tensor]:
        """What the pipeline is for."""
        names = {
            tensor.name for launch in self.launches for tensor in launch.program.tensors if tensor.role == "output"
        }
        return [tensor for name, tensor in self.tensors.items() if name in names]

    @property
    def last_input(self) -> torch.Tensor:
        """The input whose sign is that of most outputs: dO of a backward pass, V, latents, or X of a softmax."""
        return next(self.tensors[name] for name in ("dO", "V", "C", "X") if name in self.tensors)

    def run(self) -> list[Any]:
        """Enqueue all launches once. Returns: the compiled kernel of each."""
        return [run(twin, launch, self.tensors) for twin, launch in zip(self.twins, self.launches, strict=True)]


def prepare(
    launches: Sequence[Launch], problem: Problem, place: torch.device = CUDA, *, forward: bool = True
) -> tuple[Pipeline, int]:
    """Allocate the inputs and outputs of a pipeline, run it once, and then hold all its scratch.

    In that first run scratch lives as an eager framework keeps it: from the launch that first names it to the last.

    Args:
        forward: as of `filled`.

    Returns:
        The pipeline, and the most device memory that it held during its first run [B].

    Raises:
        ValueError: a launch that no kernel can follow.
    """
    twins = tuple(find_twin(launch) for launch in launches)
    before_bytes = torch.cuda.memory_allocated(place)
    kept = {tensor.name: tensor for launch in launches for tensor in launch.program.tensors if tensor.role != "scratch"}
    generator = torch.Generator(place).manual_seed(SEED)
    tensors = filled(kept.values(), problem, place, generator, forward=forward)
    torch.cuda.synchronize(place)
    torch.cuda.reset_peak_memory_stats(place)
    scratch = {
        tensor.name: tensor for launch in launches for tensor in launch.program.tensors if tensor.name not in kept
    }
    for number, (launch, twin) in enumerate(zip(launches, twins, strict=True)):
        for tensor in launch.program.tensors:
            if tensor.name not in tensors:
                tensors[tensor.name] = allocate(tensor, place)
        run(twin, launch, tensors)
        later = {tensor.name for following in launches[number + 1 :] for tensor in following.program.tensors}
        for name in scratch:
            if name in tensors and name not in later:
                del tensors[name]
    torch.cuda.synchronize(place)
    peak_bytes = torch.cuda.max_memory_allocated(place) - before_bytes
    tensors |= filled(scratch.values(), problem, place, generator)
    return Pipeline(launches=tuple(launches), twins=twins, problem=problem, tensors=tensors), peak_bytes


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
