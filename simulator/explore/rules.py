"""What the rules of other programs would choose in the place of the best configuration, and what that costs."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from ..device.device import Device
from ..problems.problem import Problem
from ..schedules.registry import find_schedule
from .candidate import Candidate


def rule_notes(
    best: Candidate, problem: Problem, device: Device, tried: Callable[[Sequence[Candidate]], list[Candidate]]
) -> tuple[str, ...]:
    """A line with the options that each rule chooses, and the time with them over that of the best; or nothing.

    Args:
        best: the fastest of all; tried: simulates others.
    """
    schedule, prediction = find_schedule(best.schedule), best.prediction
    if prediction is None:
        return ()
    chosen = schedule.rules(schedule.problem.of(problem), best.config, device)
    configs = {config for options in chosen.values() if (config := best.config.but(**options)) != best.config}
    others = [replace(best, config=config, prediction=None, resources=None) for config in configs]
    outcomes = {best.config: best} | dict(zip(configs, tried(others), strict=True))
    costs = []
    for rule, options in chosen.items():
        outcome = outcomes[best.config.but(**options)]
        unusual = {name: value for name, value in options.items() if value != schedule.options[name].default}
        values = ", ".join(f"{name} {value}" for name, value in (unusual or options).items())
        times = f"{outcome.prediction.time_s / prediction.time_s:.2f}x" if outcome.prediction else ""
        costs.append(f"{rule} {values} ({times or f'not predicted: {outcome.reason}'})")
    return (f"by the rules of other programs, in this kernel: {'; '.join(costs)}",) if costs else ()
