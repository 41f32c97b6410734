"""Predictions of default configurations, warm: `checkpoint` and `launches` need them by the dozen."""

from collections.abc import Sequence
from functools import partial

from ...simulator.device.device import Device
from ...simulator.jobs.pool import Progress, run_all
from ...simulator.launch.program import Resources
from ...simulator.prediction.prediction import Prediction
from ...simulator.problems.attention import AttentionProblem
from ...simulator.residency.occupancy import DoesNotFit
from ...simulator.simulate import launches_of, simulate
from ..compare.campaign import Compiler
from ..points.point import runnable_config

Wanted = tuple[str, AttentionProblem, str]
"""Name of a schedule, what it is to compute, and whether launches follow each other in a `stream` or a `graph`."""


def forecast(
    wanted: Sequence[Wanted],
    device: Device,
    *,
    compiler: Compiler | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
) -> list[Prediction | str]:
    """Predict each, in order; a text is the reason why one cannot run.

    Args:
        compiler: gives registers and shared memory of launches; they are estimated where None.
        workers, progress: as `simulator.explore`.

    Raises:
        ValueError: a schedule cannot do a problem.
    """
    pipelines = [launches_of(problem, name, runnable_config(name), device) for name, problem, _ in wanted]
    chains: list[tuple[Resources, ...] | str | None] = [None] * len(wanted)
    if compiler:
        pairs = zip(wanted, pipelines, strict=True)
        told = iter(compiler([(launch, problem) for (_, problem, _), pipeline in pairs for launch in pipeline]))
        chains = [_chain([next(told) for _ in pipeline]) for pipeline in pipelines]
    jobs = [(*each, chain) for each, chain in zip(wanted, chains, strict=True)]
    return run_all(partial(_predict, device), jobs, workers, progress)


def _chain(told: Sequence[Resources | str]) -> tuple[Resources, ...] | str:
    refused = [each for each in told if isinstance(each, str)]
    return refused[0] if refused else tuple(each for each in told if isinstance(each, Resources))


def _predict(
    device: Device, job: tuple[str, AttentionProblem, str, tuple[Resources, ...] | str | None]
) -> Prediction | str:
    name, problem, overhead, chain = job
    if isinstance(chain, str):
        return chain
    config = runnable_config(name)
    try:
        return simulate(
            problem, schedule=name, config=config, device=device, l2="warm", overhead=overhead, resources=chain
        )
    except DoesNotFit as error:
        return str(error)
