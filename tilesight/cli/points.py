"""What `tilesight validate` is to run: the points that its options describe."""

from collections.abc import Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, TypeVar

from ..simulator.device.device import Device
from ..simulator.dtypes import dtype_name
from ..simulator.names import unknown
from ..simulator.problems.attention import AttentionProblem
from ..simulator.problems.problem import Problem
from ..simulator.schedules.contract import Schedule
from ..simulator.schedules.registry import all_options, find_schedule
from .groups import Group, flag, option, word
from .options import SETTING
from .output import BadInput, bad_input
from .shapes import BOTH, FORWARD, LENGTHS, PASS, PASSES, TYPES, ProblemOptions

if TYPE_CHECKING:
    from ..validate.points.point import Point

Kind = TypeVar("Kind", bound=AttentionProblem)


def settings_given(name: str, given: Sequence[str] | None) -> dict[str, str]:
    """Options of the form KEY=VALUE. Raises: BadInput: one is not."""
    settings = {}
    for setting in given or []:
        key, sign, value = setting.partition("=")
        if not sign or not key.strip() or not value.strip():
            raise BadInput(f"--{name} {setting!r}: must be KEY=VALUE")
        settings[key.strip().replace("-", "_")] = value.strip()
    return settings


def problem_given(given: Sequence[str], kind: type[Kind]) -> Kind:
    """The problem of a kind that `--problem` describes. Raises: BadInput: a key or value is not allowed."""
    values: dict[str, Any] = {}
    known = {**{item.name: item.default for item in kind.FIELDS}, **dict.fromkeys(LENGTHS)}
    for key, value in settings_given("problem", given).items():
        if key not in known:
            raise BadInput(f"--problem {key}={value}: key {unknown(key, known)}")
        if isinstance(known[key], str):
            values[key] = dtype_name(value) if key in TYPES else value
        elif isinstance(known[key], bool):
            if value not in ("true", "false"):
                raise BadInput(f"--problem {key}={value}: must be true or false")
            values[key] = value == "true"
        else:
            try:
                values[key] = float(value) if isinstance(known[key], float) else int(value)
            except ValueError:
                raise BadInput(f"--problem {key}={value}: must be a number") from None
    try:
        return ProblemOptions(values=known | values).build(kind)
    except BadInput as error:
        raise BadInput(f"--problem: {str(error).removeprefix('--')}") from None


def _problem_of(schedule: Schedule, given: Sequence[str]) -> Problem:
    """The problem that `--problem` describes to a schedule. Raises: BadInput: as `problem_given`."""
    kind = schedule.problem
    return problem_given(given, kind if issubclass(kind, AttentionProblem) else AttentionProblem)


def options_given(given: Sequence[str] | None) -> dict[str, int | str]:
    """The options that `--config` pins. Raises: BadInput: a key or value is not allowed."""
    options: dict[str, int | str] = {}
    for key, value in settings_given("config", given).items():
        if key not in all_options():
            raise BadInput(f"--config {key}={value}: key {unknown(key, all_options())}")
        if all_options()[key].is_number:
            try:
                options[key] = int(value)
            except ValueError:
                raise BadInput(f"--config {key}={value}: must be a whole number") from None
        else:
            options[key] = value
    return options


class PointsOptions(Group):
    """Which points are run."""

    schedule: list[str] | None = option(None, "Only this schedule; repeatable.  [default: all of the pass]", "NAME")
    pass_: str | None = field(default=None, metadata=PASS)
    problem: list[str] | None = option(
        None, "Run this problem, not the default set; repeatable: seqlen=4096, causal=true, ...", SETTING
    )
    config: list[str] | None = option(None, "Fix an option of the configurations; repeatable.", SETTING)
    only: list[str] | None = option(None, "Only points whose key matches (* and ?); repeatable.", "PATTERN")
    full: bool = flag("Run the long set: hundreds of points.")
    seed: int = option(0, "Seed of the long set.")
    draw: int | None = option(
        None, "Points that the long set draws beside the short one.  [default: 320]", "N", least=1
    )
    l2: str = word("cold", "L2 cache before the first launch.", "cold", "warm")

    def points(self, device: Device) -> "tuple[list[Point], tuple[str, ...]]":
        """The points that the options describe, and a remark on each schedule that the device cannot run.

        Raises:
            BadInput: there are none, or an option is not allowed.
        """
        from ..validate.points import sets
        from ..validate.points.point import Point, able, runnable_config

        names, left_out = able(self._names(), device)
        for name, reason in left_out.items():
            if not names:
                raise BadInput(f"--schedule {name}: {reason}")
        if self.problem:
            asked = {name: _problem_of(find_schedule(name), self.problem) for name in names}
            reasons = {name: find_schedule(name).why_not(asked[name]) for name in names}
            points = [
                Point(schedule=name, problem=asked[name], config=runnable_config(name), l2=self.l2)
                for name in names
                if reasons[name] is None
            ]
            if not points:
                raise BadInput(f"--problem: schedule {names[0]}: {reasons[names[0]]}")
        elif self.full:
            points = sets.full_points(names, device, self.seed, self.l2, self.draw or sets.DRAWN_POINTS)
        else:
            points = sets.default_points(names, self.l2)
        notes = tuple(f"{name} is left out: {reason}" for name, reason in left_out.items())
        return self._pinned(points), notes

    def selected(self, points: Sequence["Point"]) -> list["Point"]:
        """Those of the points that the options leave, with their options pinned.

        Raises:
            BadInput: there are none, or an option is not allowed.
        """
        names = self.schedule or []
        return self._pinned([point for point in points if not names or "all" in names or point.schedule in names])

    def _names(self) -> list[str]:
        """The schedules that are named, or all of the pass. Raises: BadInput: one is not measured."""
        from ..validate.points.point import runnable_schedules

        runnable = runnable_schedules()
        names = [name for name in self.schedule or [] if name != "all"]
        with bad_input("schedule"):
            for name in names:
                find_schedule(name)
                if name not in runnable:
                    raise ValueError(f"schedule {name!r}: is not measured yet; those that are: {', '.join(runnable)}")
        if not names or "all" in (self.schedule or []):
            kinds = list(PASSES.values()) if self.pass_ == BOTH else [PASSES[self.pass_ or FORWARD]]
            names += [name for name in runnable if find_schedule(name).problem in kinds and name not in names]
        return names

    def _pinned(self, points: Sequence["Point"]) -> list["Point"]:
        from ..validate.points.point import matching, pinned

        options = options_given(self.config)
        with bad_input(before="--config "):
            kept = pinned(points, options)
        with bad_input(before="--only "):
            return matching(kept, self.only or [])
