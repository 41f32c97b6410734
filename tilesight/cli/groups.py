"""Groups of options that commands share: a command takes a whole group as one parameter.

A group is a class with an option, an argument or a flag a field, which becomes a frozen dataclass.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, FrozenInstanceError, dataclass, field, fields
from functools import cache
from typing import Annotated, Any, Self, TypeVar, dataclass_transform

import typer

from .output import BadInput
from .parse import one_of, whole

Default = TypeVar("Default")
INT = "INT"
LEAST, IS_ARGUMENT = "least", "is_argument"
"""What a field says besides keywords of typer's."""


@dataclass_transform(frozen_default=True, kw_only_default=True)
class Group:
    """Options of one subject. Those of a subclass whose fields are no options say what theirs are.

    Raises:
        BadInput: a number is smaller than its option allows.
    """

    def __init_subclass__(cls) -> None:
        # `dataclass` would compile these methods for each of many groups whenever the program starts.
        dataclass(init=False, eq=False, repr=False)(cls)

    def __init__(self, **values: Any) -> None:
        for item in _fields(type(self)):
            value, least = values.pop(item.name, item.default), item.metadata.get(LEAST)
            if value is MISSING:
                raise TypeError(f"{type(self).__name__}: {item.name} is missing")
            if least is not None and value is not None and value < least:
                raise BadInput(f"{typed_as(item.name)} = {value}: must be an integer of {least} or more")
            object.__setattr__(self, item.name, value)
        if values:
            raise TypeError(f"{type(self).__name__}: has no {', '.join(values)}")
        self.check()

    def __setattr__(self, name: str, value: Any) -> None:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def check(self) -> None:
        """Refuse options that do not go together, whichever command takes them. Raises: BadInput: they do not."""

    @classmethod
    def parameters(cls) -> list[inspect.Parameter]:
        """The options, for typer."""
        return [parameter(item.name, item.type, item.default, item.metadata) for item in _fields(cls)]

    @classmethod
    def taken(cls, values: Mapping[str, Any]) -> Self:
        """The group with the values that typer read. Args: values: option -> value, all of `parameters`."""
        return cls(**values)


def _fields(group: type[Group]) -> tuple[Field[Any], ...]:
    return fields(group)  # type: ignore[arg-type]  # a dataclass by `__init_subclass__`


def option(
    default: Default,
    doc: str,
    metavar: str = INT,
    parser: Callable[[str], Any] | None = None,
    words: Callable[[], Iterable[str]] | None = None,
    least: int | None = None,
) -> Default:
    """A field of a group that is an option by the field's name; a whole number where nothing else is said.

    Args:
        default: its value where the user gives none.
        doc: what the help says.
        metavar: what the help shows in the place of a value.
        parser: reads a value as typed.
        words: what a shell completes it by.
        least: the smallest number that is allowed.
    """
    made: Default = field(default=default, metadata={**described(doc, metavar, parser, words), LEAST: least})
    return made


def word(default: Default, doc: str, *allowed: str) -> Default:
    """A field of a group that is an option with one of a few words as its value."""
    return option(default, doc, "|".join(allowed), one_of(*allowed))


def flag(doc: str) -> bool:
    """A field of a group that is a flag by the field's name."""
    made: bool = field(default=False, metadata={"help": doc})
    return made


def argument(doc: str, metavar: str, default: Any = MISSING, words: Callable[[], Iterable[str]] | None = None) -> Any:
    """A field of a group that is an argument of the command; the user must give it where it has no default."""
    return field(default=default, metadata={**described(doc, metavar, None, words), IS_ARGUMENT: True})


def described(
    doc: str,
    metavar: str = INT,
    parser: Callable[[str], Any] | None = None,
    words: Callable[[], Iterable[str]] | None = None,
) -> dict[str, Any]:
    """An option as keywords of typer's. Args: as of `option`."""

    def completed(incomplete: str) -> list[str]:
        return [word for word in words() if word.startswith(incomplete)] if words else []

    reader = parser or (whole if metavar == INT else None)
    return {"help": doc, "metavar": metavar, "parser": reader, "autocompletion": completed if words else None}


def typed_as(name: str) -> str:
    """A field as the user types it: `--kv-dtype` for `kv_dtype`, `--as` for `as_`."""
    return f"--{name.removesuffix('_').replace('_', '-')}"


def parameter(name: str, kind: Any, default: Any, how: Mapping[str, Any]) -> inspect.Parameter:
    """An option or argument, for typer.

    Args:
        name: of the field.
        kind: type of its values.
        default: dataclasses.MISSING where the user must give it.
        how: keywords of typer's.
    """
    keywords = {key: value for key, value in how.items() if key not in (IS_ARGUMENT, LEAST)}
    said = typer.Argument(**keywords) if IS_ARGUMENT in how else typer.Option(typed_as(name), **keywords)
    usual = inspect.Parameter.empty if default is MISSING else default
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=usual, annotation=Annotated[kind, said])


@cache
def _parameters(group: type[Group]) -> Sequence[inspect.Parameter]:
    """Those of a group, which several commands may take."""
    return group.parameters()


def spread(command: Callable[..., None]) -> Callable[..., None]:
    """Let typer see the options of a command's groups in place of the groups."""
    taken = inspect.signature(command).parameters.values()
    groups = {item.name: item.annotation for item in taken if issubclass(item.annotation, Group)}
    parameters: list[inspect.Parameter] = []
    for item in taken:
        parameter = item.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        parameters += _parameters(groups[item.name]) if item.name in groups else [parameter]

    def spread_command(**values: Any) -> None:
        built = {
            name: group.taken({option.name: values.pop(option.name) for option in _parameters(group)})
            for name, group in groups.items()
        }
        command(**built, **values)

    spread_command.__name__, spread_command.__doc__ = command.__name__, command.__doc__
    spread_command.__annotations__ = {item.name: item.annotation for item in parameters}
    spread_command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return spread_command
