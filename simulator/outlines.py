"""Gives outlined launches the programs that are found in their machine code.

What launches of a pipeline share they see alike; a tensor keeps the role that its schedule has given it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from .device.device import Device
from .launch.outline import is_outline, storage_of
from .launch.program import Launch
from .refusal import Refused
from .residency.l1_room import kept_of
from .trace.cta.traced_kernel import CompiledKernel
from .trace.program.launch import launches_of
from .trace.program.whole_grid import trace_grid


@dataclass(frozen=True, slots=True, kw_only=True)
class Followed:
    """Launches that can be simulated.

    Args:
        notes: doubts and remarks of those that were traced, one line each.
        lower_bound: whether waits of their CTAs for each other were left out.
    """

    launches: tuple[Launch, ...]
    notes: tuple[str, ...] = ()
    lower_bound: bool = False


def follow(launches: Sequence[Launch], device: Device) -> Followed:
    """The launches; where they are outlines, with the programs that their code tells of.

    Args:
        launches: that follow each other; outlines with compiled resources.

    Raises:
        Refused: a kernel cannot be followed through its code; one line that names kernel and source line.
        DoesNotFit: a CTA needs more than an SM has.
    """
    if not any(map(is_outline, launches)):
        return Followed(launches=tuple(launches))
    traced = [trace_grid(_kernel(launch), kept_of(launch.resources, launch.grid, device)) for launch in launches]
    roles = {tensor.name: tensor.role for launch in launches for tensor in launch.program.tensors}
    programs = []
    for outlined, traced_launch in zip(launches, launches_of(traced), strict=True):
        tensors = tuple(replace(tensor, role=roles[tensor.name]) for tensor in traced_launch.program.tensors)
        program = replace(traced_launch.program, tensors=tensors)
        programs.append(
            replace(outlined, program=program, traced=traced_launch.traced, consumer_warps=traced_launch.consumer_warps)
        )
    return Followed(
        launches=tuple(programs),
        notes=tuple(note for launch in traced for note in launch.notes),
        lower_bound=any(launch.lower_bound for launch in traced),
    )


def _kernel(launch: Launch) -> CompiledKernel:
    """A launch as the tracer takes it. Raises: Refused: two of its tensors have the same number."""
    storages = tuple(storage_of(tensor) for tensor in launch.program.tensors)
    if len({storage.number for storage in storages}) < len(storages):
        names = ", ".join(tensor.name for tensor in launch.program.tensors)
        raise Refused(f"kernel {launch.name}: two of its tensors ({names}) have the same number: rename one")
    return CompiledKernel(
        name=launch.name,
        grid=launch.grid,
        num_warps=launch.num_warps,
        num_stages=launch.num_stages,
        resources=launch.resources,
        storages=storages,
    )
