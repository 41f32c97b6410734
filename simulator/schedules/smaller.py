"""Configurations that take less of an SM than one that was asked for, the nearest first."""

from collections.abc import Collection, Iterator
from itertools import product
from typing import Any

from .config import Config
from .contract import Schedule

SHRINKING = {"num_stages": 1, "block_n": 16, "block_m": 16}
"""Options that decide what a CTA takes of an SM -> the least of each; the one that changes least else first."""


def smaller(schedule: Schedule, asked: Config, kept: Collection[str] = ()) -> Iterator[Config]:
    """The configuration asked for, then those with fewer stages or smaller blocks, the nearest first.

    Those whose options do not go together are left out.

    Args:
        kept: options that keep their value.
    """
    space = {
        name: _down(getattr(asked, name), least, halved=name != "num_stages")
        for name, least in SHRINKING.items()
        if name in schedule.options and name not in kept
    }
    ways = product(*(range(len(values)) for values in space.values()))
    for steps in sorted(ways, key=lambda steps: (sum(steps), [-step for step in steps])):
        chosen = {name: values[step] for (name, values), step in zip(space.items(), steps, strict=True)}
        config = asked.but(**chosen)
        if schedule.conflict(config) is None:
            yield config


def _down(value: int, least: int, *, halved: bool) -> list[int]:
    """The value and what is below it, down to the least."""
    values = [value]
    while values[-1] > least:
        values.append(values[-1] // 2 if halved else values[-1] - 1)
    return values


def changes(asked: Config, taken: Config) -> dict[str, tuple[Any, Any]]:
    """Option -> its value in the one and in the other, where they differ."""
    pairs = {name: (asked.named().get(name), taken.named().get(name)) for name in SHRINKING}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def shrunk_note(asked: Config, taken: Config, reason: str) -> str:
    """A line for the user: what is smaller than the default, and why. Args: reason: why the default does not fit."""
    changed = ", ".join(f"{name} {new} in place of {old}" for name, (old, new) in changes(asked, taken).items())
    return f"{changed}, the default: {reason}"
