"""Where the resources and costs of launches come from: the library, Triton's compiler, or estimates from tiles.

The library is asked first. What it does not hold is compiled on the spot where torch and triton are installed
(`--compiled` has everything compiled so), and estimated where they are not. No GPU is needed for any of it.
"""

from collections.abc import Iterable, Sequence
from math import ceil
from typing import TYPE_CHECKING, Any

from ..compiling import only_missing, why_not
from ..simulator import units
from ..simulator.device.device import Device
from ..simulator.jobs.pool import cores
from ..simulator.launch.program import Launch, Resources
from ..simulator.refusal import Refusal
from .groups import Group, flag, option, typed_as, word
from .output import BadInput, progress, say

if TYPE_CHECKING:
    from ..simulator.prediction.prediction import LaunchPrediction
    from ..simulator.resolve import ResourcesOf

COMPILE_S = 2.0
"""Time of a core for a kernel: 1.5 to 2.5 s, Triton 3.6.0, two cores of a cloud machine, 2026-11-23 [s]."""


class CostOptions(Group):
    """Where the resources and the cycles of launches come from."""

    registers: int | None = option(None, "Registers per thread, instead of the kernel's.", least=1)
    smem_bytes: int | None = option(None, "Shared memory per CTA in bytes, instead of the kernel's.", least=0)
    compiled: bool = flag("Compile all kernels with the Triton installed here, not from the library; needs no GPU.")
    cost: str | None = word(
        None,
        "Registers, shared memory and cycles: from machine code, or estimated from tile sizes.  [default: compiled]",
        *("compiled", "tiles"),
    )

    def check(self) -> None:
        """Raises: BadInput: an option says what another one says already."""
        named = next((f"{typed_as(key)} {value}" for key, value in self.given.items() if value is not None), None)
        if self.cost == "compiled" and named:
            raise BadInput(f"--cost compiled and {named}: code has resources of its own; give one")
        if self.cost and self.compiled:
            raise BadInput(f"--cost {self.cost} and --compiled: kernels that are compiled give the cycles; give one")
        if self.cost and named:
            raise BadInput(f"--cost {self.cost}: changes nothing with {named}; leave it out")
        if self.compiled and named:
            raise BadInput(f"--compiled and {named}: each replaces the estimate; give one")

    @property
    def given(self) -> dict[str, Any]:
        """What replaces the resources of the kernels, as keywords."""
        return {"registers": self.registers, "smem_bytes": self.smem_bytes}

    @property
    def kind(self) -> str:
        """Where cycles come from: `compiled` code, or `tiles`."""
        estimated = self.registers is not None or self.smem_bytes is not None
        return "tiles" if estimated else self.cost or "compiled"

    @property
    def compiles(self) -> bool:
        """Whether what the library lacks is compiled here."""
        return self.compiled or (self.kind != "tiles" and not why_not())

    def source(self, device: Device, workers: int | None = None) -> "tuple[ResourcesOf | None, tuple[str, ...]]":
        """What a command asks for resources, beside the library, and remarks for the reader of the result.

        Args:
            device: to compile for.
            workers: compiler processes, one per core where None.

        Returns:
            A function as `simulator.explore` takes for its `resources_of`, None where the library and estimates do;
            and lines for the reader of the result.

        Raises:
            BadInput: something that compiling needs is missing.
        """
        if self.compiled:
            compile_, remark = compiler_for(device, workers)
            return compile_, (remark,)
        if self.kind == "tiles":
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
            compile_, _ = compiler_for(device, workers)  # loads torch
            return compile_(pipelines)

        return only_missing(announced, device), notes


def of_use(remarks: tuple[str, ...], launches: "Iterable[LaunchPrediction]") -> tuple[str, ...]:
    """Remarks on who compiled the code, where cycles come of any."""
    return remarks if any(launch.cost == "compiled" for launch in launches) else ()


def compiler_for(
    device: Device, workers: int | None = None, wanted_by: str = "--compiled"
) -> "tuple[ResourcesOf, str]":
    """What compiles launches for a device, and a remark that says so.

    Args:
        device: to compile for.
        workers: compiler processes, one per core where None.
        wanted_by: option or command that messages name.

    Returns:
        A function as `simulator.explore` takes for its `resources_of`; and a line for the reader of the result.

    Raises:
        BadInput: something that compiling needs is missing.
    """
    reason = why_not()
    if reason:
        raise BadInput(f"{wanted_by}: {reason}")
    from ..kernels.compile.compile import compile_pipelines, compiler_text

    def resources_of(pipelines: Sequence[tuple[Launch, ...]]) -> Sequence[tuple[Resources, ...] | Refusal | None]:
        with progress("kernels compiled") as tick:
            return compile_pipelines(pipelines, device, workers=workers, progress=tick)

    return (
        resources_of,
        f"registers, shared memory and cycles come from code compiled here: {compiler_text(device)}",
    )
