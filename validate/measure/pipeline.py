"""A point on a GPU: its tensors, its kernels, one pass through its launches, and the memory that this takes.

Outputs and scratch begin as poison (`inputs`), so that what no kernel wrote shows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ...kernels.launch.launch import TritonKernel, allocate, run
from ...kernels.launch.registry import find_twin
from ...simulator.launch.program import Launch
from ...simulator.problems.problem import Problem
from .inputs import filled

SEED = 20_26
CUDA = torch.device("cuda")


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
    twins = tuple(find_twin(launch, problem) for launch in launches)
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
