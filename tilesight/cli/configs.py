"""The options of a configuration, which schedules declare; and the problems that a schedule with them is to solve."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self, TypeVar

from ..simulator.problems.problem import Problem
from ..simulator.schedules.contract import Schedule
from ..simulator.schedules.options import Option
from ..simulator.schedules.registry import all_options, all_schedules
from .given import Given
from .groups import Group, parameter, typed_as
from .model.options import ModelOptions
from .output import BadInput, bad_input
from .parse import each_once
from .shapes import ShapeOptions, refuse_unread_shape

Shape = TypeVar("Shape", bound=ShapeOptions)


class ConfigOptions(Group):
    """The choices of a schedule, as texts. Args: texts: option -> text; None leaves the choice to the schedule."""

    SEVERAL: ClassVar[bool] = False
    texts: Mapping[str, str | None]

    @classmethod
    def parameters(cls) -> list[inspect.Parameter]:
        """An option for each one that a schedule declares."""
        return [
            parameter(name, str | None, None, _described(option, cls.SEVERAL)) for name, option in all_options().items()
        ]

    @classmethod
    def taken(cls, values: Mapping[str, Any]) -> Self:
        """The group of these texts."""
        return cls(texts=values)

    def given(self) -> dict[str, Any]:
        """The value of each option that the user gave; where several are taken, all of them, in order.

        Raises:
            BadInput: no whole number where one is needed, an empty list, or a value twice.
        """
        lists = {name: self._values(name, text) for name, text in self.texts.items() if text is not None}
        return {name: values if self.SEVERAL else values[0] for name, values in lists.items()}

    def _values(self, name: str, text: str) -> tuple[int | str, ...]:
        parts = [part.strip() for part in text.split(",")] if self.SEVERAL else [text]
        option = typed_as(name)
        if not all_options()[name].is_number:
            return each_once(option, text, parts)
        try:
            return each_once(option, text, [int(part) for part in parts])
        except ValueError:
            several = "whole numbers, separated by commas"
            allowed = several if self.SEVERAL else "a whole number"
            listed = not self.SEVERAL and "," in text
            hint = "; explore tries several" if listed else ""
            raise BadInput(f"{option} = {text!r}: must be {allowed}{hint}") from None


class SpaceOptions(ConfigOptions):
    """The same with several values each, as a comma list."""

    SEVERAL: ClassVar[bool] = True


def _described(option: Option, several: bool) -> dict[str, Any]:
    metavar = "INT" if option.is_number else "|".join(map(str, option.values))
    takers = [schedule.name for schedule in all_schedules().values() if option.name in schedule.options]
    only = f" ({takers[0]} only)" if len(takers) == 1 else ""
    text = option.help.removesuffix(".") + only + "."
    return {"help": text, "metavar": f"{metavar},..." if several else metavar}


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
