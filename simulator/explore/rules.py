"""What the rules of other programs would choose in the place of the best configuration, and what that costs."""

from collections.abc import Callable
from dataclasses import replace

from ..device.device import Device
from ..problems.problem import Problem
from ..schedules.registry import find_schedule
from .candidate import Candidate


def rule_notes(
    best: Candidate, problem: Problem, device: Device, tried: Callable[[Candidate], Candidate]
) -> tuple[str, ...]:
    """A line with the options that each rule chooses, and the time with them over that of the best; or nothing.

    Args:
        best: the fastest of all; tried: simulates another one.
    """
    schedule, prediction = find_schedule(best.schedule), best.prediction
    if prediction is None:
        return ()
    ctas_per_sm = prediction.launches[0].ctas_per_sm
    costs = []
    for rule, options in schedule.rules(schedule.problem.of(problem), best.config, device, ctas_per_sm).items():
        config = best.config.but(**options)
        same = config == best.config
        outcome = best if same else tried(replace(best, config=config, prediction=None, resources=None))
        values = ", ".join(f"{name} {value}" for name, value in options.items())
        time_s = outcome.prediction.time_s if outcome.prediction and outcome.fits else None
        cost = f"{time_s / prediction.time_s:.2f}x" if time_s else f"cannot run: {outcome.reason}"
        costs.append(f"{rule} {values} ({cost})")
    return (f"by the rules of other programs, in this kernel: {'; '.join(costs)}",) if costs else ()
