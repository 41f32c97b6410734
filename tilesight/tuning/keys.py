"""What `key` of `@triton.autotune` lacks: shapes that share a key run the configuration that won at the first."""

from collections.abc import Mapping, Sequence
from typing import Any

from ..simulator.display.render import times
from .tuning import ALIKE, Configured, TunedLaunch


def key_notes(launches: Sequence[TunedLaunch]) -> list[str]:
    """A line for each kernel that is slower for it at a shape: what that costs, and which arguments differ there.

    Args:
        launches: in the order in which Triton meets them.
    """
    first: dict[str, TunedLaunch] = {}
    worst: dict[str, tuple[float, str]] = {}
    for launch in launches:
        before = first.setdefault(repr((launch.kernel, launch.key)), launch)
        winners, others = ([item for item in met.predicted if item.authors] for met in (before, launch))
        if len(winners) < 2 or len(others) < 2:
            continue
        again = next((item for item in others if item.values == winners[0].values), others[0])
        loss = again.time_s / others[0].time_s
        if loss > max(1.0 + ALIKE, worst.get(launch.kernel, (0.0, ""))[0]):
            worst[launch.kernel] = loss, _line(before, launch, again, others[0])
    return [line for _, line in worst.values()]


def _line(before: TunedLaunch, launch: TunedLaunch, again: Configured, best: Configured) -> str:
    differing = [
        f"{name} ({before.arguments.get(name)}, {value})"
        for name, value in launch.arguments.items()
        if name not in launch.key and before.arguments.get(name) != value
    ]
    lacking = f"add one of {', '.join(differing)}" if differing else "no number among its arguments tells them apart"
    return (
        f"kernel {launch.kernel}: at {_shown(launch.shape)} it runs what was tuned at {_shown(before.shape)}, as both "
        f"have the key {_shown(launch.key) or '()'}: {_shown(again.values)} takes {times(again.time_s / best.time_s)} "
        f"the time of the best there, {_shown(best.values)}; {lacking} to key"
    )


def _shown(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in values.items())
