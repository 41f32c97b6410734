"""A point on a GPU: its tensors, its kernels, one pass through its launches, and the memory that this takes.

Inputs are random, the same for the same point; outputs and scratch begin as poison, so that what no kernel wrote shows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ...kernels.launch.launch import Twin, allocate, run
from ...kernels.launch.registry import find_twin
from ...kernels.reference import visible_keys
from ...simulator.launch.program import Launch, Tensor
from ...simulator.problems.attention import AttentionProblem
from ...simulator.problems.problem import Problem
from .output_checks import poison

SEED = 20_26


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The launches of a point, ready to run. Args: launches; twins: one each; problem; tensors: by name."""

    launches: tuple[Launch, ...]
    twins: tuple[Twin, ...]
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
        """The input on which every output element depends through its values alone: V, or X of a softmax."""
        return self.tensors["V" if "V" in self.tensors else "X"]

    def run(self) -> list[Any]:
        """Enqueue all launches once. Returns: the compiled kernel of each."""
        return [run(twin, launch, self.tensors) for twin, launch in zip(self.twins, self.launches, strict=True)]


def prepare(launches: Sequence[Launch], problem: Problem, place: torch.device) -> tuple[Pipeline, int]:
    """Allocate the inputs and outputs of a pipeline, run it once, and then hold all its scratch.

    In that first run scratch lives as an eager framework keeps it: from the launch that first names it to the last.

    Returns:
        The pipeline, and the most device memory that it held during its first run [B].

    Raises:
        ValueError: a launch that no kernel can follow.
    """
    twins = tuple(find_twin(launch, problem) for launch in launches)
    before_bytes = torch.cuda.memory_allocated(place)
    kept = {tensor.name: tensor for launch in launches for tensor in launch.program.tensors if tensor.role != "scratch"}
    generator = torch.Generator(place).manual_seed(SEED)
    tensors = {name: _filled(tensor, problem, place, generator) for name, tensor in kept.items()}
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
    tensors |= {name: _filled(tensor, problem, place, generator) for name, tensor in scratch.items()}
    return Pipeline(launches=tuple(launches), twins=twins, problem=problem, tensors=tensors), peak_bytes


def _filled(tensor: Tensor, problem: Problem, place: torch.device, generator: torch.Generator) -> torch.Tensor:
    """Device memory for a tensor: random where it is an input (a mask: what it lets through), else poison."""
    memory = allocate(tensor, place)
    if tensor.role != "input":
        poison([memory])
        return memory
    if memory.is_floating_point() and memory.element_size() > 1:
        return memory.normal_(generator=generator)
    if memory.is_floating_point():
        for slab in memory:  # torch draws no fp8
            slab.copy_(torch.randn(slab.shape, generator=generator, device=place))
        return memory
    memory.fill_(1)
    if tensor.name == "MASK" and isinstance(problem, AttentionProblem):
        memory[..., : problem.seqlen_k] = visible_keys(
            problem.whole_mask, problem.seqlen_q, problem.seqlen_k, memory.device
        )
    return memory
