"""Groups of options that commands share: a command takes a whole group as one parameter."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from typing import Any, Self, get_type_hints


class Group:
    """Options of one subject. A dataclass whose fields are options is one as it is; others say what theirs are."""

    @classmethod
    def parameters(cls) -> list[inspect.Parameter]:
        """The options, for typer."""
        types = get_type_hints(cls, include_extras=True)
        return [
            parameter(item.name, types[item.name], inspect.Parameter.empty if item.default is MISSING else item.default)
            for item in fields(cls)  # type: ignore[arg-type]
        ]

    @classmethod
    def taken(cls, values: Mapping[str, Any]) -> Self:
        """The group with the values that typer read. Args: values: option -> value, all of `parameters`."""
        return cls(**values)


def parameter(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    """An option, for typer."""
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def spread(command: Callable[..., None]) -> Callable[..., None]:
    """Let typer see the options of a command's groups in place of the groups."""
    hints = get_type_hints(command, include_extras=True)
    parameters: list[inspect.Parameter] = []
    groups: dict[str, tuple[type[Group], list[str]]] = {}
    for item in inspect.signature(command).parameters.values():
        group = hints[item.name]
        if inspect.isclass(group) and issubclass(group, Group):
            parameters_of_group = group.parameters()
            groups[item.name] = group, [option.name for option in parameters_of_group]
            parameters += parameters_of_group
        else:
            parameters.append(item.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=group))

    def spread_command(**values: Any) -> None:
        built = {name: group.taken({key: values.pop(key) for key in names}) for name, (group, names) in groups.items()}
        command(**built, **values)

    spread_command.__name__, spread_command.__doc__ = command.__name__, command.__doc__
    spread_command.__annotations__ = {item.name: item.annotation for item in parameters}
    spread_command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return spread_command
