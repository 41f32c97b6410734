"""The options of a configuration: those that the schedules declare."""

import inspect
from collections.abc import Mapping
from typing import Any, ClassVar, Self

from ..simulator.schedules.options import Option
from ..simulator.schedules.registry import all_options, all_schedules
from .groups import Group, parameter, typed_as
from .output import BadInput
from .parse import each_once


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
