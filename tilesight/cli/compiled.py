"""Where the resources and costs of launches come from: the library, Triton's compiler, or estimates from tiles.

The library is asked first. What it does not hold is compiled on the spot where torch and triton are installed
(`--compiled` has everything compiled so), and estimated where they are not. No GPU is needed for any of it.
"""

from collections.abc import Iterable, Sequence
from math import ceil
from typing import TYPE_CHECKING

from ..compiling import compiler, only_missing, why_not
from ..simulator import units
from ..simulator.device.device import Device
from ..simulator.jobs.pool import cores
from ..simulator.launch.program import Launch, Resources
from ..simulator.problems.problem import Problem
from ..simulator.refusal import Refusal
from .output import BadInput, progress, say

if TYPE_CHECKING:
    from ..simulator.prediction.prediction import LaunchPrediction
    from ..simulator.resolve import ResourcesOf

COMPILE_S = 2.0
"""Time of a core for a kernel: 1.5 to 2.5 s, Triton 3.6.0, two cores of a cloud machine, 2026-11-23 [s]."""


def cost_given(cost: str | None, given: dict[str, int | None], compiled: bool = False) -> str:
    """Where resources and cycles of a step come from.

    Args:
        cost: of `--cost`; given: `--registers`, `--smem-bytes`; compiled: whether `--compiled` is given.

    Raises:
        BadInput: another option says it already.
    """
    named = [f"--{name.replace('_', '-')} {value}" for name, value in given.items() if value is not None]
    if cost == "compiled" and named:
        raise BadInput(f"--cost compiled and {named[0]}: code has resources of its own; give one")
    if cost and compiled:
        raise BadInput(f"--cost {cost} and --compiled: kernels that are compiled give the cycles; give one")
    if cost and named:
        raise BadInput(f"--cost {cost}: changes nothing with {named[0]}; leave it out")
    return "tiles" if named else cost or "compiled"


def resources_given(registers: int | None, smem_bytes: int | None) -> dict[str, int | None]:
    """What replaces the estimates, as keywords. Raises: BadInput: a value that no CTA can have."""
    if registers is not None and registers < 1:
        raise BadInput(f"--registers = {registers}: must be an integer of 1 or more")
    if smem_bytes is not None and smem_bytes < 0:
        raise BadInput(f"--smem-bytes = {smem_bytes}: must be an integer of 0 or more")
    return {"registers": registers, "smem_bytes": smem_bytes}


def compiles(given: dict[str, int | None], cost: str = "compiled") -> bool:
    """Whether what the library lacks is compiled here. Args: as of `source_of_costs`."""
    return cost != "tiles" and all(value is None for value in given.values()) and not why_not()


def source_of_costs(
    problem: Problem,
    device: Device,
    given: dict[str, int | None],
    cost: str,
    *,
    compiled: bool = False,
    workers: int | None = None,
) -> "tuple[ResourcesOf | None, tuple[str, ...]]":
    """What a command asks for resources, beside the library, and remarks for the reader of the result.

    Args:
        given: values of `--registers` and `--smem-bytes`; cost: value of `--cost`;
        compiled: whether all is compiled anew.
        workers: compiler processes, one per core where None.

    Returns:
        A function as `simulator.explore` takes for its `resources_of`, None where the library and estimates do;
        and lines for the reader of the result.

    Raises:
        BadInput: something that compiling needs is missing, or the resources are given as well.
    """
    if compiled:
        compile_, remark = compiler_for(problem, device, given, workers)
        return compile_, (remark,)
    if cost == "tiles" or any(value is not None for value in given.values()):
        return None, ()
    from ..simulator.library.lookup import origin_text

    notes = (text,) if (text := origin_text(device)) else ()
    if why_not():
        return None, notes

    def announced(pipelines: Sequence[tuple[Launch, ...]]) -> Sequence[tuple[Resources, ...] | Refusal | None]:
        kernels = {
            (launch.name, launch.num_warps, launch.num_stages, *launch.constants.items())
            for chain in pipelines
            for launch in chain
        }
        seconds = ceil(len(kernels) / (workers or cores())) * COMPILE_S
        say(f"compiling what the library does not hold: about {units.duration(seconds)} the first time, then kept")
        compile_, _ = compiler_for(problem, device, given, workers)  # loads torch
        return compile_(pipelines)

    return only_missing(announced, device), notes


def of_use(remarks: tuple[str, ...], launches: "Iterable[LaunchPrediction]") -> tuple[str, ...]:
    """Remarks on who compiled the code, where cycles come of any."""
    return remarks if any(launch.cost == "compiled" for launch in launches) else ()


def compiler_for(
    problem: Problem,
    device: Device,
    given: dict[str, int | None],
    workers: int | None = None,
    wanted_by: str = "--compiled",
) -> "tuple[ResourcesOf, str]":
    """What compiles launches for a device, and a remark that says so.

    Args:
        given: values of `--registers` and `--smem-bytes`; workers: compiler processes, one per core where None;
            wanted_by: option or command that messages name.

    Returns:
        A function as `simulator.explore` takes for its `resources_of`; and a line for the reader of the result.

    Raises:
        BadInput: something that compiling needs is missing, or the resources are given as well.
    """
    for name, value in given.items():
        if value is not None:
            raise BadInput(f"--compiled and --{name.replace('_', '-')} {value}: each replaces the estimate; give one")
    reason = why_not()
    if reason:
        raise BadInput(f"{wanted_by}: {reason}")
    from ..kernels.compile.compile import compiler_text

    def resources_of(pipelines: Sequence[tuple[Launch, ...]]) -> Sequence[tuple[Resources, ...] | Refusal | None]:
        with progress("kernels compiled") as tick:
            return compiler(problem, device, everything=True, workers=workers, progress=tick)(pipelines)

    return (
        resources_of,
        f"registers, shared memory and cycles come from code compiled here: {compiler_text(device)}",
    )
