"""Predictions of default configurations, warm: `checkpoint` and `launches` need them by the dozen."""

from collections.abc import Sequence
from functools import partial

from ...simulator.device.device import Device
from ...simulator.jobs.pool import Progress, run_all
from ...simulator.launch.program import Resources
from ...simulator.prediction.prediction import Prediction
from ...simulator.problems.attention import AttentionProblem
from ...simulator.refusal import Refusal
from ...simulator.resolve import Launches, launches_of, resolve
from ...simulator.simulate import predict
from ..compare.campaign import Compiler, all_or_refusal
from ..points.point import runnable_config

Wanted = tuple[str, AttentionProblem, str]
"""Name of a schedule, what it is to compute, and whether launches follow each other in a `stream` or a `graph`."""


def predict_defaults(
    wanted: Sequence[Wanted],
    device: Device,
    *,
    compiler: Compiler | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
) -> list[Prediction | Refusal]:
    """Predict each, in order, or say why it cannot run.

    Args:
        compiler: gives registers and shared memory of launches; they are estimated where None.
        workers, progress: as `simulator.explore`.

    Raises:
        ValueError: a schedule cannot do a problem.
    """
    pipelines = [launches_of(problem, name, runnable_config(name), device) for name, problem, _ in wanted]
    chains: list[tuple[Resources, ...] | Refusal | None] = [None] * len(wanted)
    if compiler:
        pairs = zip(wanted, pipelines, strict=True)
        promised = iter(compiler([(launch, problem) for (_, problem, _), pipeline in pairs for launch in pipeline]))
        chains = [all_or_refusal([next(promised) for _ in pipeline]) for pipeline in pipelines]
    jobs = list(zip(wanted, pipelines, chains, strict=True))
    return run_all(partial(_predict, device), jobs, workers, progress)


def _predict(
    device: Device, job: tuple[Wanted, Launches, tuple[Resources, ...] | Refusal | None]
) -> Prediction | Refusal:
    (name, problem, overhead), launches, chain = job
    if isinstance(chain, Refusal):
        return chain
    resolved = resolve(problem, name, runnable_config(name), device, resources=chain, built=launches)
    return resolved if isinstance(resolved, Refusal) else predict(resolved, device, l2="warm", overhead=overhead)
