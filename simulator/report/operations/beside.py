"""Profiles beside each other: what fusing saves, and which GPU."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ... import units
from ...display.render import Column, percent, plural, table, times
from ...operations.groups import operation_text, time_of
from ...operations.profile import SCHEMA, Profile
from .text import kernel_text

MOST_FUSED = 8
"""Fused kernels that are named, the longest first."""


def profiles_json(outcomes: Mapping[str, Sequence[Profile] | str]) -> dict[str, Any] | list[dict[str, Any]]:
    """What `profile --json` prints: an object, or a list of them, in the order in which devices were named.

    Args:
        outcomes: device -> its profiles, or why there are none, in one line.
    """
    every: list[dict[str, Any]] = []
    for name, outcome in outcomes.items():
        if isinstance(outcome, str):
            every.append({"schema": SCHEMA, "device": name, "failed": outcome})
        else:
            every += [profile.to_dict() for profile in outcome]
    return every[0] if len(every) == 1 else every


def profiles_rows(profiles: Sequence[Profile]) -> list[dict[str, Any]]:
    """What `profile --csv` writes: a row for each kernel in each mode on each device."""
    return [row for profile in profiles for row in profile.flat_rows()]


def fusing_text(eager: Profile, compiled: Profile, width: int, color: bool = False) -> str:
    """What compiling saves, and which operations each fused kernel holds."""
    figures: list[tuple[str, Callable[[Profile], float], Callable[[float], str]]] = [
        ("kernels", lambda profile: len(profile.rows), lambda value: f"{value:,.0f}"),
        ("without a price", lambda profile: len(profile.refused), lambda value: f"{value:,.0f}"),
        ("time", lambda profile: profile.time_s, units.duration),
        ("GPU idle", lambda profile: profile.idle_s, units.duration),
        ("step", lambda profile: profile.step_s, units.duration),
        ("HBM bytes", _hbm_bytes, units.traffic),
        ("peak memory", lambda profile: profile.peak_bytes, units.capacity),
    ]
    values = [(figure(eager), figure(compiled)) for _, figure, _ in figures]
    shown = [place for place, pair in enumerate(values) if figures[place][0] != "without a price" or any(pair)]
    columns = [
        Column(title=f"on {eager.device}", cells=[figures[place][0] for place in shown], left=True),
        Column(title="eager", cells=[figures[place][2](values[place][0]) for place in shown]),
        Column(title="compiled", cells=[figures[place][2](values[place][1]) for place in shown]),
        Column(title="eager / compiled", cells=[_ratio(*values[place]) for place in shown]),
    ]
    doubt = "" if eager.complete and compiled.complete else "Incomplete: something is missing below, as said above\n"
    lines = [f"{doubt}What fusing saves\n{table(columns, width, color)}"]
    if held := fused_columns(compiled):
        lines.append(f"What the longest fused kernels hold\n{table(held, width, color)}")
    return "\n\n".join(lines)


def _hbm_bytes(profile: Profile) -> float:
    return sum(row.hbm_bytes for row in profile.rows if row.kernel.source != "refused")


def _ratio(eager: float, compiled: float) -> str:
    return times(eager / compiled) if compiled else "-"


def fused_columns(profile: Profile) -> list[Column]:
    """Fused kernels, the longest first, with the operations in each; empty where there are none."""
    fused: dict[str, list[Any]] = {}
    for row in profile.rows:
        if len(row.operation.parts) > 1:
            fused.setdefault(operation_text(row.operation), []).append(row)
    longest = sorted(fused.values(), key=lambda rows: -sum(time_of(row.kernel) for row in rows))[:MOST_FUSED]
    if not longest:
        return []
    return [
        Column(title="kernel", cells=[kernel_text(rows[0].kernel.name) for rows in longest], left=True),
        Column(title="runs", cells=[f"x {len(rows)}" for rows in longest]),
        Column(title="time", cells=[units.duration(sum(row.time_s for row in rows)) for rows in longest]),
        Column(title="operations in it", cells=[operation_text(rows[0].operation) for rows in longest], left=True),
    ]


def devices_text(profiles: Sequence[Profile], width: int, color: bool = False) -> str:
    """Which GPU: a line for each device, those that the step fits come first, the fastest of them first."""
    ranked = sorted(profiles, key=lambda profile: (not profile.fits, len(profile.refused), profile.step_s))
    slowest_s = max(profile.step_s for profile in profiles) or 1.0
    names = [f"{profile.device}, {profile.mode}" for profile in ranked]
    missing = [plural(len(profile.refused), "kernel") if profile.refused else "none" for profile in ranked]
    over = [
        "yes" if profile.fits else f"no: {units.capacity(profile.peak_bytes - profile.hbm_bytes)} too much"
        for profile in ranked
    ]
    columns = [
        Column(title="device", cells=names, left=True),
        *([Column(title="without a price", cells=missing)] if any(profile.refused for profile in ranked) else []),
        Column(title="time", cells=[units.duration(profile.time_s) for profile in ranked]),
        Column(title="GPU idle", cells=[units.duration(profile.idle_s) for profile in ranked]),
        Column(title="step", cells=[units.duration(profile.step_s) for profile in ranked]),
        Column(title="vs slowest", cells=[_ratio(slowest_s, profile.step_s) for profile in ranked], rank=1),
        Column(title="peak memory", cells=[units.capacity(profile.peak_bytes) for profile in ranked], rank=1),
        Column(title="fits", cells=over, left=True),
        Column(title="bound by", cells=[_most(profile) for profile in ranked], left=True),
    ]
    return f"Which GPU\n{table(columns, width, color)}"


def _most(profile: Profile) -> str:
    """What binds most of the time, and its share of it."""
    bound_s = sum(row.time_s for row in profile.rows if row.kernel.bound_by == profile.bound_by)
    return f"{profile.bound_by} {percent(bound_s / profile.time_s)}" if profile.time_s else "-"
