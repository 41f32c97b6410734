"""The problems that options describe, one for each pass, and the schedules that are to solve each."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from ..simulator.problems.problem import Problem
from ..simulator.schedules.contract import Schedule
from ..simulator.schedules.registry import all_options
from .configs import ConfigOptions
from .given import Given
from .model.options import ModelOptions
from .output import bad_input
from .shapes import ShapeOptions, refuse_unread_shape

Shape = TypeVar("Shape", bound=ShapeOptions)


@dataclass(frozen=True, kw_only=True)
class Posed:
    """A problem and what is to solve it."""

    problem: Problem
    names: Sequence[str]
    """Of its schedules, as they were asked for."""
    schedules: Sequence[Schedule]
    options: dict[str, Any]
    """Those options of a configuration that the user gave and any of the schedules takes."""
    notes: tuple[str, ...]
    """Remarks on the model that the problem is of."""


def pose(
    parts: "Sequence[tuple[Shape, list[str] | None]]",
    build: Callable[[Shape, type[Problem]], Problem],
    model: ModelOptions,
    config: ConfigOptions,
    typed: Given,
    usual: list[str] | None = None,
) -> list[Posed]:
    """What the options ask, pass by pass.

    Args:
        parts: options of each pass, and names of its schedules, as `ShapeOptions.passes` has them.
        build: makes a problem of a type.
        model: whose heads, element type and mask fill the problem.
        config: options of the schedules.
        typed: options that the user gave.
        usual: schedules where none is named, the default one of the pass where None.

    Raises:
        BadInput: an option is not allowed, or changes nothing.
    """
    from ..simulator.explore.space import options_of, schedules_named

    asked = []
    for part, named in parts:
        names = part.schedules(named or usual)
        kind = part.kind(names)
        shape, notes = model.fill(part, kind, names, typed)
        problem = build(shape, kind)
        with bad_input("schedule"):
            asked.append((problem, names, schedules_named(names, type(problem)), notes))
    every = [schedule for _, _, schedules, _ in asked for schedule in schedules]
    refuse_unread_shape(typed, every)
    given = config.given()
    with bad_input(*all_options()):
        return [
            Posed(
                problem=problem,
                names=names,
                schedules=schedules,
                options=options_of(schedules, every, given),
                notes=notes,
            )
            for problem, names, schedules, notes in asked
        ]
