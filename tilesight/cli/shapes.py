"""The options of what to compute: those that the types of problem declare, and the lengths."""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Self, TypeVar

from ..simulator.problems.attention import AttentionProblem
from ..simulator.problems.attention_backward import AttentionBackwardProblem
from ..simulator.problems.lengths import lengths_of
from ..simulator.problems.problem import Field, Problem
from ..simulator.schedules.contract import Schedule
from ..simulator.schedules.registry import all_problems, all_schedules, default_schedule
from .given import Given, refuse_unread
from .groups import Group, described, parameter, typed_as
from .output import BadInput, bad_input
from .parse import dtype_of, mask_text, number, one_of, text_or_file, whole

DEFAULT_SEQLEN = 4096
LENGTHS = {
    "seqlen": f"Length of queries and keys.  [default: {DEFAULT_SEQLEN}]",
    "seqlen_q": "Query length (M).  [default: --seqlen]",
    "seqlen_k": "Key length (N).  [default: --seqlen]",
}
FORWARD = "forward"
PASSES: Mapping[str, type[AttentionProblem]] = {FORWARD: AttentionProblem, "backward": AttentionBackwardProblem}
"""Value of --pass -> what is computed."""
BOTH = "both"
"""Value of --pass that asks for a training step: each pass by itself, and their sum."""
PASS = described(
    f"Attention itself, its gradients, or both: a training step.  [default: what --schedule computes, else {FORWARD}]",
    "|".join((*PASSES, BOTH)),
    one_of(*PASSES, BOTH),
)
KEYS = "lengths"
"""The option of keys of each sequence; queries are then 1 by default: the step of a decode."""
TYPES = ("dtype", "kv_dtype")
"""The options of element types."""
Kind = TypeVar("Kind", bound=Problem)


def declared_fields() -> dict[str, Field]:
    """The fields of all types of problem by name."""
    return {item.name: item for kind in reversed(all_problems()) for item in kind.FIELDS}


def _in_order() -> list[Field]:
    """The same, those of the problem that most schedules solve first."""
    known = declared_fields()
    first = [item.name for kind in all_problems() for item in kind.FIELDS]
    return [known[name] for name in dict.fromkeys(first)]


class ShapeOptions(Group):
    """What to compute, but for its lengths. Args: values: option -> value."""

    values: Mapping[str, Any]

    @classmethod
    def parameters(cls) -> list[inspect.Parameter]:
        """The pass, and an option for each field that a problem declares."""
        return [parameter("pass_", str | None, None, PASS), *(_option(item) for item in _in_order())]

    @classmethod
    def taken(cls, values: Mapping[str, Any]) -> Self:
        """The group of these values."""
        return cls(values=values)

    def passes(self, names: Sequence[str] | None) -> "list[tuple[Self, list[str] | None]]":
        """The options of each pass that is asked for, and the schedules of it: None where none is named.

        Of both passes a schedule that is named brings one of the other pass that goes with it.

        Raises:
            BadInput: a schedule is not known, is of no pass, or none of the other pass goes with it.
        """
        if self.values["pass_"] != BOTH:
            return [(self, list(names) if names else None)]
        from ..simulator.explore.training import partners

        with bad_input("schedule"):
            of_pass = {kind: _named(names or [], kind) for kind in PASSES.values()}
        listed = [name for named in of_pass.values() for name in named]
        for name in names or []:
            if name not in ("all", *listed):
                raise BadInput(f"--schedule {name!r}: has no backward pass; leave out --pass {BOTH}")
        for kind, other in zip(of_pass, reversed(of_pass), strict=True):
            if of_pass[other] and not of_pass[kind]:
                of_pass[kind] = partners(of_pass[other], kind)
                if not of_pass[kind]:
                    raise BadInput(
                        f"--schedule {of_pass[other][0]!r}: no schedule of {kind.KIND} goes with it; name another"
                    )
        return [
            (replace(self, values={**self.values, "pass_": asked}), of_pass[kind] or None)
            for asked, kind in PASSES.items()
        ]

    def schedules(self, names: Sequence[str] | None) -> list[str]:
        """The schedules that are named, or the default one of the pass."""
        return list(names or [default_schedule(PASSES.get(self.values["pass_"] or FORWARD, AttentionProblem))])

    def kind(self, schedules: Sequence[str]) -> type[Problem]:
        """The type of problem: that of the pass, or of the first of the schedules where no pass is named.

        Raises:
            BadInput: there is no schedule of one of the names, or it computes the other pass.
        """
        asked = self.values["pass_"]
        if asked == BOTH:
            raise BadInput(f"--pass {BOTH}: this command takes one pass: {' or '.join(PASSES)}")
        kind = PASSES[asked] if asked else None
        from ..simulator.explore.space import schedules_named

        with bad_input("schedule"):
            named = schedules_named(schedules, kind)
        for item in named:
            if kind and (item.problem in PASSES.values() and item.problem is not kind):
                fitting = ", ".join(other.name for other in all_schedules().values() if other.problem is kind)
                raise BadInput(f"--schedule {item.name!r}: computes {item.problem.KIND}; --pass {asked} has {fitting}")
        return kind or named[0].problem

    def of_lengths(self, kind: type[Kind], seqlen_q: int, seqlen_k: int) -> Kind:
        """A problem of a type. Raises: BadInput: a value is not allowed."""
        values = {item.name: self.values[item.name] for item in kind.FIELDS if item.name in self.values}
        chosen = {name: value for name, value in values.items() if value is not None}
        with bad_input(*values, *LENGTHS):
            if text := chosen.pop(KEYS, ""):
                lengths = lengths_of(text_or_file(KEYS, text))
                chosen |= {KEYS: lengths, "batch": len(lengths)}
                seqlen_k = max(lengths)
            if "page_order" in chosen:
                chosen["page_order"] = text_or_file("page_order", chosen["page_order"])
            if "mask" in chosen:
                chosen["mask"] = mask_text(chosen["mask"])
            for item in kind.FIELDS:
                if item.default is None and chosen.get(item.name, 1) < 1:
                    raise ValueError(f"{item.name} = {chosen[item.name]}: must be an integer of 1 or more")
            return kind(**chosen, **{"seqlen_q": seqlen_q, "seqlen_k": seqlen_k})


class ProblemOptions(ShapeOptions):
    """What to compute."""

    @classmethod
    def parameters(cls) -> list[inspect.Parameter]:
        """The lengths beside the others."""
        lengths = (parameter(name, int | None, None, described(doc)) for name, doc in LENGTHS.items())
        return [*super().parameters(), *lengths]

    def build(self, kind: type[Kind]) -> Kind:
        """A problem of a type. Raises: BadInput: a value is not allowed, or changes nothing."""
        seqlen, seqlen_q, seqlen_k = (self.values.get(name) for name in LENGTHS)
        if seqlen is not None and seqlen < 1:
            raise BadInput(f"--seqlen = {seqlen}: must be an integer of 1 or more")
        if seqlen is not None and seqlen_q is not None and seqlen_k is not None:
            raise BadInput(f"--seqlen {seqlen}: changes nothing beside --seqlen-q and --seqlen-k; leave it out")
        both = DEFAULT_SEQLEN if seqlen is None else seqlen
        if self.values.get(KEYS):
            if seqlen is not None or seqlen_k is not None:
                raise BadInput(f"--{KEYS}: has the length of all keys; of queries give --seqlen-q")
            both = 1
        return self.of_lengths(kind, both if seqlen_q is None else seqlen_q, both if seqlen_k is None else seqlen_k)


def _named(names: Sequence[str], kind: type[Problem]) -> list[str]:
    """Those of the schedules that solve a type of problem. Raises: ValueError: there is none of a name."""
    from ..simulator.explore.space import schedules_named

    named = schedules_named(names, kind) if names else []
    return [item.name for item in named if item.problem is kind]


def _option(item: Field) -> inspect.Parameter:
    """The option of a field, for typer."""
    kind: Any = int | None if item.default is None else type(item.default)
    text = _help(item)
    if kind is bool:
        how: dict[str, Any] = {"help": text}
    elif kind is str and item.choices:
        word = (dtype_of if item.name in TYPES else one_of)(*item.choices)
        # The parser meets the default, too.
        how = described(text, item.metavar, lambda typed: typed and word(typed))
    else:
        how = described(text, item.metavar, {float: number, str: None}.get(kind, whole))
    return parameter(item.name, kind, item.default, how)


def _help(item: Field) -> str:
    """What a field is; and which schedule alone can do what it asks for, where there is one."""
    takers = [
        schedule.name
        for schedule in all_schedules().values()
        if item.name in schedule.problem.ASKS_NOTHING and item.name in schedule.reads
    ]
    return f"{item.help.removesuffix('.')} ({takers[0]} only)." if len(takers) == 1 else item.help


def _field(option_name: str) -> str:
    return option_name.removeprefix("--").replace("-", "_")


def refuse_unread_shape(typed: Given, schedules: Sequence[Schedule]) -> None:
    """See that what is computed depends on every option of the problem. Raises: BadInput: on one it does not."""

    def unread(schedule: Schedule) -> set[str]:
        fields = {item.name for item in schedule.problem.FIELDS}
        return (declared_fields().keys() - fields) | (schedule.problem.ASKS_NOTHING.keys() - set(schedule.reads))

    for schedule in schedules:
        for name, other in schedule.problem.IMPLIED.items():
            if typed_as(other) in typed:
                refuse_unread(typed, [typed_as(name)], f"with {typed_as(other)}, which includes it")
    nowhere = set.intersection(*(unread(schedule) for schedule in schedules))
    options = [typed_as(item.name) for item in _in_order() if item.name in nowhere]
    named = ", ".join(schedule.name for schedule in schedules)
    for name in options:
        takers = [item.name for item in all_schedules().values() if _field(name) in item.reads]
        hint = f"{', '.join(takers)} {'take' if len(takers) > 1 else 'takes'} it" if takers else ""
        where = f"schedule{'s' if len(schedules) > 1 else ''} {named}"
        if name in typed and any(_field(name) in schedule.problem.ASKS_NOTHING for schedule in schedules):
            shown = " ".join((name, *typed[name][:1])).strip()
            raise BadInput(f"{shown}: cannot be given with {where}{f'; {hint}' if hint else ''}")
        refuse_unread(typed, [name], f"for {where}{f' ({hint})' if hint else ''}")
