"""The contract of a schedule: a name, the problem it solves, its options, and a function to `Launch`es.

A schedule is one file in `schedules/` that ends in `SCHEDULE = Schedule(...)`; the registry finds it there.
Its module docstring opens with the loop nest and holds the tally table that a test checks.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from itertools import product
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np

from ..arguments import plain_number, several, shown
from ..device.device import Device
from ..launch.program import Launch
from ..problems.attention import AttentionProblem
from ..problems.problem import Problem, none_of
from .config import Config
from .coverage import USUAL_COVERAGE, Coverage
from .options import Option, Value


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """One way to solve a problem on a GPU.

    Args:
        name: as on the command line; also the name of the Triton kernel's file.
        summary: one line for tables and help.
        source: paper and section, or code, that the loop nest is from.
        problem: the type of problem that it solves; only schedules of one problem are held against each other.
        options: what it leaves open, by name (`options.declared`).
        launches: builds the kernel launches; raises ValueError for a combination that it cannot do. Called with a
            configuration that leaves out options, it takes the default's.
        supports: None where the schedule can solve the problem, else the reason why not, in one line.
        suited: defaults that suit a problem and a device better than those of the options, by name.
        reads: of the fields that ask for something more (`Problem.ASKS_NOTHING`), those that it looks at; where another
            one does, it cannot solve the problem.
        rewritten: tensors that it stores more than once.
        baseline: whether the other schedules of its problem are held against it.
        conflict: None where the options of a configuration go together, else which do not, in one line.
        color: in pictures, as `#rrggbb`; one of a palette where empty.
        coverage: which points `validate` measures of it.
        rules: of other programs, by name -> the options that each would choose. Called with problem, configuration
            and device.
        outlined: whether its launches are outlines (`launch.outline`), predicted only where they are compiled.
    """

    name: str
    summary: str
    source: str
    problem: type[Problem] = AttentionProblem
    options: Mapping[str, Option]
    launches: Callable[[Any, Config, Device], tuple[Launch, ...]]
    supports: Callable[[Any], str | None] = lambda problem: None
    suited: Callable[[Any, Device], Mapping[str, Value]] = lambda problem, device: {}
    reads: tuple[str, ...] = ()
    rewritten: frozenset[str] = frozenset()
    baseline: bool = False
    conflict: Callable[[Config], str | None] = lambda config: None
    color: str = ""
    coverage: Coverage = USUAL_COVERAGE
    outlined: bool = False
    rules: Callable[[Any, Config, Device], Mapping[str, Mapping[str, Value]]] = lambda *asked: {}

    def __post_init__(self) -> None:
        build = self.launches

        @wraps(build)
        def launches(problem: Problem, config: Config, device: Device) -> tuple[Launch, ...]:
            return build(self.problem.of(problem), self.asked(**config.named()), device)

        object.__setattr__(self, "launches", launches)

    def __repr__(self) -> str:
        """One line: its name, and what it is."""
        return f"<Schedule {self.name}: {self.summary}>"

    @property
    def default(self) -> Config:
        """What is taken of each option that is not named, where problem and device are not known."""
        return Config(**{name: option.default for name, option in self.options.items()})

    def completed(self, named: Mapping[str, Any], problem: Problem, device: Device) -> Config:
        """What the user names, and defaults that suit the rest, without one that does not go with it, or without all.

        Args:
            problem: it solves it.

        Raises:
            ValueError: as `asked`.
        """
        suited = dict(self.suited(self.problem.of(problem), device))
        for left_out in ("", *suited):
            kept = {name: value for name, value in suited.items() if name != left_out}
            config = self.asked(**kept | dict(named))
            if self.conflict(config) is None:
                return config
        return self.asked(**named)

    @property
    def space(self) -> dict[str, tuple[Value, ...]]:
        """Values to try per option in `explore`."""
        return {name: option.space for name, option in self.options.items() if option.space}

    @property
    def in_triton(self) -> dict[str, Value]:
        """Options that Triton's compiler leaves no choice in, with the value that it gives them."""
        return {name: option.in_triton for name, option in self.options.items() if option.in_triton is not None}

    def why_not(self, problem: Problem) -> str | None:
        """None where the schedule can solve the problem, else the reason why not, in one line."""
        try:
            posed = self.problem.of(problem)
        except ValueError as error:
            return str(error)
        for name, nothing in posed.ASKS_NOTHING.items():
            if name not in self.reads and getattr(posed, name) != nothing:
                return none_of(name, getattr(posed, name))
        return self.supports(posed)

    def configs(self, **fixed: Value | Sequence[Value]) -> Iterator[Config]:
        """The configuration space, in a stable order, without options that do not go together.

        Args:
            fixed: options that keep their value, or values.

        Raises:
            ValueError: a fixed option is not one of this schedule's, its value is not allowed, or it goes with nothing.
        """
        self.check_options(**dict.fromkeys(fixed, 0))
        space: dict[str, Any] = {name: self._values(name, values) for name, values in fixed.items()}
        space |= {name: values for name, values in self.space.items() if name not in fixed}
        made = [self.asked(**dict(zip(space, values, strict=True))) for values in product(*space.values())]
        together = [config for config in made if self.conflict(config) is None]
        yield from (self.checked(config) for config in together or made)

    def _values(self, name: str, given: Value | Sequence[Value]) -> tuple[Any, ...]:
        """The values of an option that keeps one, or some. Raises: ValueError: there is none, or one twice."""
        if isinstance(given, (int, str, np.integer)):
            return (given,)
        values = several(name, given, f"values, or one: {self.options[name].allowed}")
        if not values:
            raise ValueError(f"{name} = {shown(given)}: must hold at least one value")
        for place, value in enumerate(values):
            self.options[name].check(plain_number(value))
            if value in values[:place]:
                raise ValueError(f"{name} = {shown(given)}: has {shown(plain_number(value))} twice; give it once")
        return values

    def config(self, **chosen: Any) -> Config:
        """The default configuration with some options chosen.

        Raises:
            ValueError: a chosen option is not one of this schedule's, its value is not allowed, or it does not go with
                the others.
        """
        config = self.asked(**chosen)
        if reason := self.conflict(config):
            raise ValueError(reason)
        return config

    def asked(self, **chosen: Any) -> Config:
        """The same, whether its options go together or not.

        Raises:
            ValueError: a chosen option is not one of this schedule's, or its value is not allowed.
        """
        self.check_options(**chosen)
        chosen = {name: plain_number(value) for name, value in chosen.items()}
        for name, value in chosen.items():
            self.options[name].check(value)
        return self.default.but(**chosen)

    def checked(self, config: Config) -> Config:
        """The configuration that a `Config` names, the rest of it the default. Raises: ValueError: as `config`."""
        return self.config(**config.named())

    def check_options(self, **chosen: object) -> None:
        """Raises: ValueError: an option that this schedule does not take."""
        for name in chosen:
            if name not in self.options:
                raise ValueError(f"{name}: schedule {self.name} does not take it; it takes {', '.join(self.options)}")


Argument = TypeVar("Argument", bound=int | float | str)


def frozen(**arguments: Argument) -> MappingProxyType[str, Argument]:
    """A read-only mapping, for `Launch.constants` and `Launch.arguments`."""
    return MappingProxyType(arguments)
