"""Resources and costs from Triton's compiler for Python, as `--compiled` has them; torch and triton, but no GPU.

The library of compiled kernels answers first, unless everything is to be compiled here.
"""

from collections.abc import Sequence

from .simulator.arguments import instance, optional_whole
from .simulator.device.device import Device, found_device
from .simulator.jobs.pool import Progress
from .simulator.launch.program import Launch, Resources
from .simulator.problems.problem import EXAMPLE, Problem
from .simulator.refusal import Refusal
from .simulator.resolve import ResourcesOf

Answers = list[tuple[Resources, ...] | Refusal | None]


def compiler(
    problem: Problem,
    device: Device | str = "h200",
    *,
    everything: bool = False,
    workers: int | None = None,
    progress: Progress | None = None,
) -> ResourcesOf:
    """What compiles the kernels of a problem for a device, for `resources_of` of `simulate` and `explore`.

    Args:
        problem, device: as given to `simulate` or `explore`.
        everything: compile also what the library of compiled kernels holds, as `--compiled` does; otherwise only what
            it lacks, as the commands do where torch and triton are installed.
        workers: compiler processes at most; one per core where None.
        progress: called with (kernels compiled, kernels in all).

    Returns:
        A function of the launches of configurations. What it has compiled is kept on disk, and found there again.

    Raises:
        RuntimeError: torch or triton is missing, or TRITON_INTERPRET is set (one line).
        ValueError: unknown device, or less than one worker.
    """
    optional_whole("workers", workers)
    instance("problem", problem, Problem, EXAMPLE)
    gpu, _ = found_device(device)
    reason = why_not()
    if reason:
        raise RuntimeError(reason)
    from .kernels.compile.compile import compile_pipelines

    def compile_all(pipelines: Sequence[tuple[Launch, ...]]) -> Sequence[tuple[Resources, ...] | Refusal | None]:
        return compile_pipelines(pipelines, gpu, workers=workers, progress=progress)

    return compile_all if everything else only_missing(compile_all, gpu)


def why_not() -> str | None:
    """Why nothing can be compiled here, in one line; None where it can."""
    from .kernels.launch.availability import interprets, missing_package

    if reason := missing_package():
        return reason
    return "TRITON_INTERPRET is set, and Triton interprets or compiles, never both; unset it" if interprets() else None


def only_missing(compile_: ResourcesOf, device: Device) -> ResourcesOf:
    """What answers None for launches that the library holds, and has others compiled, and those that it holds roughly.

    Args:
        compile_: not called where there are none.
    """
    from .simulator.library.keys import is_rough
    from .simulator.library.lookup import resources_of_all

    def resources_of(pipelines: Sequence[tuple[Launch, ...]]) -> Answers:
        answers: Answers = [None] * len(pipelines)
        missing = [
            number
            for number, chain in enumerate(pipelines)
            if any(map(is_rough, chain)) or resources_of_all(chain, device) is None
        ]
        if missing:
            compiled = compile_([pipelines[number] for number in missing])
            for number, answer in zip(missing, compiled, strict=True):
                answers[number] = answer
        return answers

    return resources_of
