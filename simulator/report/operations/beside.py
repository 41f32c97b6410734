"""Profiles beside each other: which GPU, and profiles for programs."""

from collections.abc import Mapping, Sequence
from typing import Any

from ... import units
from ...display.render import Column, percent, plural, table
from ...operations.profile import SCHEMA, Profile
from .buckets import Bucket
from .modes import ratio


def profiles_json(
    outcomes: Mapping[str, Sequence[Profile] | str], padded: Mapping[str, Sequence[Bucket]] | None = None
) -> dict[str, Any] | list[dict[str, Any]]:
    """What `profile --json` prints: an object, or a list of them, in the order in which devices were named.

    Args:
        outcomes: device -> its profiles, or why there are none, in one line.
        padded: device -> buckets of decoding, where these are asked for.
    """
    every: list[dict[str, Any]] = []
    for name, outcome in outcomes.items():
        if isinstance(outcome, str):
            every.append({"schema": SCHEMA, "device": name, "failed": outcome})
        else:
            buckets = [bucket.to_dict() for bucket in (padded or {}).get(name, ())]
            every += [profile.to_dict() | ({"buckets": buckets} if buckets else {}) for profile in outcome]
    return every[0] if len(every) == 1 else every


def profiles_rows(profiles: Sequence[Profile]) -> list[dict[str, Any]]:
    """What `profile --csv` writes: a row for each kernel in each mode on each device."""
    return [row for profile in profiles for row in profile.flat_rows()]


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
        Column(title="vs slowest", cells=[ratio(slowest_s, profile.step_s) for profile in ranked], rank=1),
        Column(title="peak memory", cells=[units.capacity(profile.peak_bytes) for profile in ranked], rank=1),
        Column(title="fits", cells=over, left=True),
        Column(title="bound by", cells=[_most(profile) for profile in ranked], left=True),
    ]
    return f"Which GPU\n{table(columns, width, color)}"


def _most(profile: Profile) -> str:
    """What binds most of the time, and its share of it."""
    bound_s = sum(row.time_s for row in profile.rows if row.kernel.bound_by == profile.bound_by)
    return f"{profile.bound_by} {percent(bound_s / profile.time_s)}" if profile.time_s else "-"
