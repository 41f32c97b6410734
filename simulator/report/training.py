"""Training steps of attention for people, and as JSON: both passes side by side, their sum, and memory."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from .. import units
from ..closed_form.roofline import roofline
from ..device.device import Device
from ..display.render import Column, config_text, table, times
from ..explore.explore import Exploration
from ..explore.training import SCHEMA, TrainingStep, best_step
from ..explore.training_lengths import SCHEMA as LENGTHS_SCHEMA
from ..explore.training_lengths import StepScaling
from ..prediction.prediction import Prediction
from .lengths import limit_text


def step_text(step: TrainingStep, device: Device) -> str:
    """The lines under both passes."""
    memory = step.memory
    roof_s = sum(roofline(item.problem, device).bound_s for item in (step.forward, step.backward))
    bound = ">= " if step.lower_bound else ""
    fits = "" if memory.peak_bytes <= device.hbm_bytes else "; DOES NOT FIT"
    lines = [
        f"Training step on {step.forward.device} ({device.name})",
        f"  Forward      {_pass_text(step.forward)}",
        f"  Backward     {_pass_text(step.backward)}",
        f"  Time         {bound}{units.duration(step.time_s)}",
        f"  Roofline     {units.duration(roof_s)}; this takes {times(step.time_s / roof_s)}",
        f"  Kept         {units.capacity(memory.kept_bytes)} from one pass to the other: {', '.join(memory.kept)}",
        f"  Peak memory  {units.capacity(memory.peak_bytes)} of {units.capacity(device.hbm_bytes)}{fits}",
    ]
    return "\n".join(lines)


def _pass_text(prediction: Prediction) -> str:
    return f"{prediction.time_text}, {prediction.schedule} {config_text(prediction.config_dict())}"


def step_dict(step: TrainingStep, device: Device, forward: Any, backward: Any) -> dict[str, Any]:
    """What `simulate --json` prints. Args: forward, backward: what each pass prints by itself."""
    return {"schema": SCHEMA, "steps": [step.to_dict(device)], "forward": forward, "backward": backward}


def best_step_texts(forwards: Sequence[Exploration], backwards: Sequence[Exploration]) -> list[str]:
    """The step of the best of both passes on each device, in words, or why there is none."""
    return [
        step if isinstance(step, str) else step_text(step, device) for step, device in _best_steps(forwards, backwards)
    ]


def steps_dict(
    forwards: Sequence[Exploration], backwards: Sequence[Exploration], forward: Any, backward: Any
) -> dict[str, Any]:
    """What `explore --json` prints: a step a device. Args: forward, backward: what each pass prints by itself."""
    steps = [
        {"device": device.name, "reason": step} if isinstance(step, str) else step.to_dict(device)
        for step, device in _best_steps(forwards, backwards)
    ]
    return {"schema": SCHEMA, "steps": steps, "forward": forward, "backward": backward}


def _best_steps(
    forwards: Sequence[Exploration], backwards: Sequence[Exploration]
) -> list[tuple[TrainingStep | str, Device]]:
    steps: list[tuple[TrainingStep | str, Device]] = []
    for both in zip(forwards, backwards, strict=True):
        ranked = [
            [replace(item.prediction, device=ranking.device_name) for item in ranking.ranked if item.prediction]
            for ranking in both
        ]
        try:
            steps.append((best_step(ranked[0], ranked[1], both[0].device), both[0].device))
        except ValueError as error:
            steps.append((f"No training step on {both[0].device_name}: {error}", both[0].device))
    return steps


def step_scaling_text(scaling: StepScaling, width: int, color: bool) -> str:
    """The tables under both passes: a column for each forward schedule, with the backward schedule that follows it."""
    lengths = scaling.forward.seqlens
    titles = {
        name: f"{name} + {'/'.join(dict.fromkeys(step.backward.schedule for step in steps.values()))}"
        for name, steps in scaling.points.items()
    }

    def rows(text: Any) -> str:
        columns = [Column("N", [f"{length:,}" for length in lengths])]
        for name, steps in scaling.points.items():
            cells = [text(name, length) if length in steps else "-" for length in lengths]
            columns.append(Column(titles[name], cells))
        return table(columns, width, color)

    def time(name: str, length: int) -> str:
        step, speedup = scaling.points[name][length], scaling.speedup(name, length)
        if step.time_s == float("inf"):
            memory = step.memory.peak_bytes > scaling.forward.device.hbm_bytes
            return "out of memory" if memory else "-"
        gain = f" {times(speedup):>6}" if speedup and name != scaling.baseline else " " * 7
        return units.duration(step.time_s) + gain

    over = f", and speedup over {titles[scaling.baseline]}" if scaling.baseline else ""
    width_of_name = max(map(len, titles.values()), default=0)
    return "\n".join(
        [
            f"Training step on {scaling.forward.device_name}: time{over}",
            rows(time),
            "",
            "Kept from one pass to the other",
            rows(lambda name, length: units.capacity(scaling.points[name][length].memory.kept_bytes)),
            "",
            "Peak device memory",
            rows(lambda name, length: units.capacity(scaling.points[name][length].memory.peak_bytes)),
            "",
            "Out of memory",
            *(f"  {titles[name]:<{width_of_name}} {limit_text(limit)}" for name, limit in scaling.limits.items()),
        ]
    )


def step_scalings_dict(scalings: Sequence[StepScaling], forward: Any, backward: Any) -> dict[str, Any]:
    """What `compare --json` prints: steps of each device. Args: forward, backward: as each pass prints by itself."""
    steps = [step for scaling in scalings for step in scaling.to_dict()]
    limits = [limit for scaling in scalings for limit in scaling.limits_dict()]
    return {"schema": LENGTHS_SCHEMA, "steps": steps, "limits": limits, "forward": forward, "backward": backward}
