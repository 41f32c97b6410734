"""Times of a launch before and after as bars, each divided by what binds it."""

from collections.abc import Sequence
from typing import Any

from ...simulator import units
from ...simulator.display.render import RESOURCES, percent
from ...simulator.prediction.bottleneck import LAUNCH, TAIL, WAIT
from ...simulator.prediction.prediction import LaunchPrediction
from ...simulator.report.draw import ACCENT, EDGE, GRID, INK, MUTED, Tips, ticks, tip_text

STACK_INCHES = (5.6, 2.9)
LEAST_SHARE = 0.005
"""Share of the time from which on a part is drawn."""
COLORS = {
    **{"hbm": ACCENT, "l2": "#56B4E9", "fabric": "#8FD0F0", "smem": "#CC79A7", "tensor": "#009E73", "mufu": "#D55E00"},
    **{"fma": "#E69F00", "issue": "#B8860B", WAIT: EDGE, TAIL: MUTED, LAUNCH: GRID},
}
"""Cause -> its colour: the palette of Okabe and Ito for resources, greys for what is none."""
Part = tuple[str, float]
"""A cause, and its share of the time."""


def parts_of(launch: LaunchPrediction) -> list[Part]:
    """The time of a launch, divided: the busiest resource, waits, the tail, the launch; they add up to 1.

    A resource that stays busy in the tail counts in the tail alone.
    """
    causes = launch.causes
    idle = {name: causes.get(name, 0.0) for name in (WAIT, TAIL, LAUNCH)}
    busiest = max((name for name in causes if name not in idle), key=lambda name: causes[name], default="")
    parts = [(busiest, 1.0 - sum(idle.values())) if busiest else ("", 0.0), *idle.items()]
    return [(name, share) for name, share in parts if share >= LEAST_SHARE]


def draw_stacks(ax: Any, tips: Tips, stacks: Sequence[tuple[str, LaunchPrediction]]) -> None:
    """A bar for each side. Args: stacks: name of the side, and its prediction."""
    longest_s = max(launch.traffic.time_s for _, launch in stacks)
    for place, (name, launch) in enumerate(stacks):
        time_s, begin_s, parts = launch.traffic.time_s, 0.0, parts_of(launch)
        words = ", ".join(f"{cause} {percent(share)}" for cause, share in parts)
        ax.text(0, place - 0.3, f"{name} {units.duration(time_s)}: {words}", va="bottom", fontsize=9, color=INK)
        for cause, share in parts:
            gid = f"{name}-{cause}"
            ax.barh([place], [share * time_s], 0.5, left=begin_s, color=COLORS.get(cause, EDGE), gid=gid)
            spent = {"of the time": percent(share), "that is": units.duration(share * time_s)}
            tips[gid] = [tip_text(f"{cause}: {RESOURCES.get(cause, cause)}", spent)]
            begin_s += share * time_s
    ax.set_yticks([])
    ax.set_xlim(0, 1.02 * longest_s)
    ax.set_ylim(1.5, -0.75)
    ax.spines["left"].set_visible(False)
    ax.xaxis.set_major_formatter(ticks(units.duration))
    ax.grid(axis="x")
    ax.set_title("Its time, by what binds it")
