"""`--compiled`: registers and shared memory from Triton's compiler in place of the estimates; needs no GPU.

torch and triton are imported only where the option is given.
"""

from collections.abc import Callable, Sequence

from .cli_output import BadInput, progress
from .simulator.device import Device
from .simulator.problem import AttentionProblem
from .simulator.program import Launch, Resources
from .simulator.registry import find_schedule

ResourcesOf = Callable[[Sequence[tuple[Launch, ...]]], Sequence[tuple[Resources, ...] | str]]


def compiler_for(
    problem: AttentionProblem,
    device: Device,
    given: dict[str, int | None],
    workers: int | None = None,
    wanted_by: str = "--compiled",
) -> tuple[ResourcesOf, str]:
    """What compiles launches for a device, and a remark that says so.

    Args:
        given: values of `--registers` and `--smem-bytes`; workers: compiler processes, one per core where None;
            wanted_by: option or command that messages name.

    Returns:
        A function as `simulator.explore` takes for its `resources_of`; and a line for the reader of the result.

    Raises:
        BadInput: something that compiling needs is missing, or the resources are given as well.
    """
    from .kernels.availability import missing_package

    for name, value in given.items():
        if value is not None:
            raise BadInput(f"--compiled and --{name.replace('_', '-')} {value}: each replaces the estimate; give one")
    reason = missing_package()
    if reason:
        raise BadInput(f"{wanted_by}: {reason}")
    from .kernels.compile import compile_pipelines, compiler_text
    from .kernels.launch import interpreted

    if interpreted():
        raise BadInput(f"{wanted_by}: TRITON_INTERPRET is set, and Triton interprets or compiles, never both; unset it")

    def resources_of(pipelines: Sequence[tuple[Launch, ...]]) -> list[tuple[Resources, ...] | str]:
        with progress("kernels compiled") as tick:
            return compile_pipelines(pipelines, problem, device, workers=workers, progress=tick)

    return resources_of, f"registers and shared memory are compiled: {compiler_text(device)}"


def rows_split(schedules: Sequence[str]) -> dict[str, str]:
    """Triton's warps share a tile by rows: the options that say so to those schedules, where one of them asks.

    Raises:
        ValueError: there is no schedule of that name.
    """
    named = [find_schedule(name) for name in schedules if name != "all"]
    asks = "all" in schedules or any("warp_split" in schedule.options for schedule in named)
    return {"warp_split": "q"} if asks else {}
