"""What is to be said of a ranking: what is missing or roughly known in it, and what could be better of the best.

Where that reads K and V from HBM more than once, the fastest one that keeps them in L2 is named; and what the rules of
other programs would choose in its place.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from .. import units
from ..device.device import Device
from ..display.render import config_text
from ..prediction.notes import cost_notes, l2_notes, tile_notes
from ..problems.problem import Problem
from ..refusal import Refusal
from ..schedules.options import CTA_ORDER
from ..schedules.registry import find_schedule
from .candidate import Candidate, bound_notes, broken_notes
from .trial import Trial

TryOthers = Callable[[Sequence[Candidate]], list[Candidate]]
"""Simulates configurations that were not asked for."""
WORTH_NAMING = ("block_m", "block_n", "num_warps", "num_stages", "cta_order")
FEWER = 0.5
"""A configuration avoids it where HBM reads at most this share of what it reads in the crowded one."""


def remarks(
    problem: Problem, device: Device, done: Sequence[Trial], candidates: Sequence[Candidate], tried: TryOthers
) -> tuple[tuple[str, ...], Mapping[str, int]]:
    """Remarks for the user, one line each; and remark -> number of the first row that it speaks of, if not of all.

    Args:
        done: what was tried; candidates: the same, best first.
    """
    fitting = [item for item in candidates if item.fits]
    estimated, rows = _cost_notes(candidates)
    row, crowded = crowded_notes(fitting, device, tried)
    notes = (
        *broken_notes(candidates),
        *bound_notes(candidates),
        *estimated,
        *(note for best in fitting[:1] for note in _tile_notes(done, best, device, problem)),
        *(note for best in fitting[:1] for note in rule_notes(best, problem, device, tried)),
        *crowded,
    )
    return notes, rows | dict.fromkeys(crowded, row)


def _cost_notes(candidates: Sequence[Candidate]) -> tuple[tuple[str, ...], dict[str, int]]:
    """How many configurations have machine code that could not be used, and why in the first; and its row."""
    noted = [
        (row, note)
        for row, item in enumerate(candidates, 1)
        if item.prediction
        for note in cost_notes(launch.cost for launch in item.prediction.launches)[:1]
    ]
    if not noted:
        return (), {}
    asked = sum(item.least_s is None for item in candidates)  # of those that were not simulated nothing is known
    note = f"{len(noted)} of {asked} configurations: {noted[0][1]}"
    return (note,), {note: noted[0][0]}


def _tile_notes(trials: Sequence[Trial], best: Candidate, device: Device, problem: Problem) -> tuple[str, ...]:
    """Remarks on the tiles of one of the configurations that were tried."""
    for trial in trials:
        if (trial.candidate.schedule, trial.candidate.config) == (best.schedule, best.config):
            return () if isinstance(trial.launches, Refusal) else tile_notes(trial.launches or (), device, problem)
    return ()


def crowded_notes(ranked: Sequence[Candidate], device: Device, tried: TryOthers) -> tuple[int, tuple[str, ...]]:
    """The row of the first configuration where K and V overflow L2, and why they do, and the fastest that avoids it.

    Args:
        ranked: those that fit, best first; tried: simulates others.
    """
    beyond = [row for row, item in enumerate(ranked) if item.prediction and item.prediction.l2_fit]
    first = ranked[beyond[0]] if beyond else None
    if first is None or first.prediction is None:
        return 0, ()
    row = beyond[0] + 1
    why = l2_notes(first.prediction.launches, device)
    read_bytes = first.prediction.total.hbm_read_bytes
    others = [*ranked, *tried(_other_orders(first, ranked))]
    ways = [
        (item.prediction.time_s, number, item.prediction.total.hbm_read_bytes, item)
        for number, item in enumerate(others)
        if item.prediction and item.fits and item.prediction.total.hbm_read_bytes <= FEWER * read_bytes
    ]
    if not ways:
        some = "simulated configuration" if any(item.least_s for item in ranked) else "configuration"
        return row, (*why, f"no other {some} or CTA order halves what HBM reads")
    time_s, _, less_bytes, item = min(ways)
    return row, (
        *why,
        f"{item.schedule} {config_text(_worth_naming(item))} reads {units.traffic(less_bytes)} from HBM"
        f" and takes {units.duration(time_s)}",
    )


def _worth_naming(item: Candidate) -> dict[str, object]:
    """The options that matter here, with their values."""
    return {name: value for name, value in item.config_dict().items() if name in WORTH_NAMING}


def _other_orders(first: Candidate, ranked: Sequence[Candidate]) -> list[Candidate]:
    """The configuration in the CTA orders that was not looked at."""
    seen = {item.config.named().get("cta_order") for item in ranked}
    if "cta_order" not in first.options:
        return []
    return [
        replace(first, config=first.config.but(cta_order=order), prediction=None)
        for order in CTA_ORDER.values
        if order not in seen
    ]


def rule_notes(best: Candidate, problem: Problem, device: Device, tried: TryOthers) -> tuple[str, ...]:
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
