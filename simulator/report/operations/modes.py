"""A step in several modes beside each other: what fusing saves, and which is fastest; and on several GPUs."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ... import units
from ...display.render import Column, percent, plural, table, times, wrapped
from ...operations.groups import operation_text, time_of
from ...operations.profile import SCHEMA, Profile
from .buckets import Bucket
from .text import kernel_text

MOST_FUSED = 8
"""Fused kernels that are named, the longest first."""
CLOSE = 0.05
"""Steps that differ by less tie. Kind: measured, nine compiled functions on an H200 were off by 4.7 % in the mean."""


def modes_text(profiles: Sequence[Profile], width: int, color: bool = False) -> str:
    """What compiling saves, which mode is fastest, and which operations each fused kernel holds.

    Args:
        profiles: of one step on one device; the others are compared with the first.
    """
    first, *others = profiles
    figures: list[tuple[str, Callable[[Profile], float], Callable[[float], str]]] = [
        ("kernels", lambda profile: len(profile.rows), lambda value: f"{value:,.0f}"),
        ("without a price", lambda profile: len(profile.refused), lambda value: f"{value:,.0f}"),
        ("time", lambda profile: profile.time_s, units.duration),
        ("GPU idle", lambda profile: profile.idle_s, units.duration),
        ("step", lambda profile: profile.step_s, units.duration),
        ("HBM bytes", _hbm_bytes, units.traffic),
        ("peak memory", lambda profile: profile.peak_bytes, units.capacity),
    ]
    shown = [item for item in figures if item[0] != "without a price" or any(map(item[1], profiles))]

    def ratios(other: Profile) -> list[str]:
        return [ratio(value(first), value(other)) for _, value, _ in shown]

    columns = [
        Column(f"on {first.device}", [name for name, _, _ in shown], left=True),
        *(Column(made.mode, [text(value(made)) for _, value, text in shown]) for made in profiles),
        *(Column(f"{first.mode} / {other.mode}", ratios(other)) for other in others),
    ]
    complete = all(made.complete for made in profiles)
    doubt = "" if complete else "Incomplete: something is missing below, as said above\n"
    parts = [f"{doubt}What fusing saves\n{table(columns, width, color)}"]
    if complete:
        parts.append("\n".join(wrapped([fastest_text(profiles)], width)))
    held = next((fused for made in reversed(profiles) if (fused := fused_columns(made))), None)
    if held:
        parts.append(f"What the longest fused kernels hold\n{table(held, width, color)}")
    return "\n\n".join(parts)


def fastest_text(profiles: Sequence[Profile]) -> str:
    """Which mode is fastest, and by how much, waits for the host counted; in one line."""
    fastest, *others = sorted(profiles, key=lambda made: made.step_s)
    texts = [
        f"{'a tie with' if made.step_s <= (1 + CLOSE) * fastest.step_s else 'faster than'} {made.mode} "
        f"({units.duration(made.step_s)}{_more(made, fastest)})"
        for made in others
    ]
    return f"Fastest  {fastest.mode}: {units.duration(fastest.step_s)} in {_queue(fastest)}; {', '.join(texts)}"


def _queue(profile: Profile) -> str:
    return "a CUDA graph" if profile.queue == "graph" else "a stream"


def _more(slower: Profile, fastest: Profile) -> str:
    return f", {percent(slower.step_s / fastest.step_s - 1.0)} more" if fastest.step_s else ""


def _hbm_bytes(profile: Profile) -> float:
    return sum(row.hbm_bytes for row in profile.rows if row.kernel.source != "refused")


def ratio(slow: float, fast: float) -> str:
    """How many times as much, for people; `-` of nothing."""
    return times(slow / fast) if fast else "-"


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
        Column("kernel", [kernel_text(rows[0].kernel.name) for rows in longest], left=True),
        Column("runs", [f"x {len(rows)}" for rows in longest]),
        Column("time", [units.duration(sum(row.time_s for row in rows)) for rows in longest]),
        Column("operations in it", [operation_text(rows[0].operation) for rows in longest], left=True),
    ]


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
        Column("device", names, left=True),
        *([Column("without a price", missing)] if any(profile.refused for profile in ranked) else []),
        Column("time", [units.duration(profile.time_s) for profile in ranked]),
        Column("GPU idle", [units.duration(profile.idle_s) for profile in ranked]),
        Column("step", [units.duration(profile.step_s) for profile in ranked]),
        Column("vs slowest", [ratio(slowest_s, profile.step_s) for profile in ranked], rank=1),
        Column("peak memory", [units.capacity(profile.peak_bytes) for profile in ranked], rank=1),
        Column("fits", over, left=True),
        Column("bound by", [_most(profile) for profile in ranked], left=True),
    ]
    return f"Which GPU\n{table(columns, width, color)}"


def _most(profile: Profile) -> str:
    """What binds most of the time, and its share of it."""
    bound_s = sum(row.time_s for row in profile.rows if row.kernel.bound_by == profile.bound_by)
    return f"{profile.bound_by} {percent(bound_s / profile.time_s)}" if profile.time_s else "-"
