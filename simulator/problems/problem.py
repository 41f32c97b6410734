"""The contract of a problem: what is to be computed, and nothing about how.

A problem is a frozen value, one type a file in `problems/`; schedules say which type they solve.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, ClassVar, Self

from ..arguments import instance, whole
from ..dtypes import DTYPES, Dtype


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadWrite:
    """Traffic in both directions. Args: read_bytes, write_bytes [B]."""

    read_bytes: int
    write_bytes: int

    @property
    def total_bytes(self) -> int:
        """Both directions together [B]."""
        return self.read_bytes + self.write_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A field of a problem as the command line takes it.

    Args:
        name; help: one line; default: where the user names none; None where `__post_init__` finds it.
        metavar: what stands for a value in the help; choices: allowed words, where there are few.
    """

    name: str
    help: str
    default: int | float | str | bool | None
    metavar: str = "INT"
    choices: tuple[str, ...] = ()


EXAMPLE = "AttentionProblem(batch=1, heads=16, seqlen_q=2048, seqlen_k=2048, head_dim=64)"
"""How to make a problem, for whoever passed something else."""


class Problem(ABC):
    """What every problem says of itself.

    Class attributes:
        KIND: in a word, e.g. `attention`; MOVES: what no schedule can help to move, for people.
        FIELDS: what the command line takes, but for the lengths.
        ASKS_NOTHING: fields that ask for something more -> the value with which they ask for nothing; a schedule that
            has no such thing solves the problem only where they do.
        IMPLIED: field -> another that includes it, so that one need not ask for both.

    Attributes:
        dtype: name of the element type of its inputs.
        batch, heads, seqlen_q, seqlen_k: what it computes is a stack of batch x heads matrices of as many rows and
            columns; the two lengths are what `compare` varies.
    """

    __slots__ = ()
    KIND: ClassVar[str]
    MOVES: ClassVar[str]
    FIELDS: ClassVar[tuple[Field, ...]]
    ASKS_NOTHING: ClassVar[Mapping[str, Any]] = {}
    IMPLIED: ClassVar[Mapping[str, str]] = {}
    dtype: str
    batch: int
    heads: int
    seqlen_q: int
    seqlen_k: int

    @property
    @abstractmethod
    def key(self) -> str:
        """The problem in a word, without spaces; the same for equal problems only."""

    @property
    @abstractmethod
    def text(self) -> str:
        """The problem in one line, e.g. `B=4 H=32 M=N=4096 D=64 fp16 causal`."""

    @property
    @abstractmethod
    def compulsory(self) -> ReadWrite:
        """Traffic that no schedule avoids: inputs read once, outputs written once [B].

        Source: Williams et al., Roofline (2009): compulsory misses.
        """

    @property
    @abstractmethod
    def exp_count(self) -> int:
        """Exponentials that no schedule avoids."""

    @property
    @abstractmethod
    def flop_per_matmul(self) -> int:
        """Useful operations of one matmul [FLOP]; 0 where there is none."""

    @property
    @abstractmethod
    def matmul_flop(self) -> int:
        """Useful operations of all matrix products [FLOP]."""

    @abstractmethod
    def part_text(self, slab: int, first_row: int, last_row: int) -> str:
        """Some rows of a slab of the output, in words, e.g. `head 3, queries 128-255`."""

    @classmethod
    def of(cls, problem: "Problem") -> Self:
        """The problem itself, or the one of exactly this type within it. Raises: ValueError: it has none."""
        if type(problem) is cls:
            return problem
        raise ValueError(unlike(cls, problem))

    @property
    def element(self) -> Dtype:
        """The element type of the inputs."""
        return DTYPES[self.dtype]

    @property
    def element_bytes(self) -> int:
        """Size of an element of the inputs [B]."""
        return self.element.size_bytes

    def but(self, **changed: Any) -> Self:
        """The same with some fields changed. Raises: ValueError: a value is not allowed."""
        return replace(self, **changed)  # type: ignore[type-var]

    def to_dict(self) -> dict[str, Any]:
        """The problem's object in JSON, which has lists and no tuples."""
        values = asdict(self)  # type: ignore[call-overload]
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}

    @classmethod
    def given(cls) -> frozenset[str]:
        """Names of the fields that a problem is made of; others follow from them."""
        return frozenset(item.name for item in fields(cls) if item.init)  # type: ignore[arg-type]

    @classmethod
    def from_dict(cls, entry: Mapping[str, Any]) -> Self:
        """The problem of a JSON object, whose fields that follow from others are not read. Raises: as the type does."""
        derived = {item.name for item in fields(cls)} - cls.given()  # type: ignore[arg-type]
        return cls(**{name: value for name, value in entry.items() if name not in derived})


def unlike(solved: type[Problem], problem: object) -> str:
    """Why a schedule cannot take a problem of another type, in one line. Raises: ValueError: it is no problem."""
    posed: Problem = instance("problem", problem, Problem, EXAMPLE)
    return f"this schedule solves {solved.KIND}, not {posed.KIND}"


def none_of(name: str, value: object) -> str:
    """Why a schedule cannot solve a problem that asks for something more, in one line."""
    text = str(value)
    return f"{name} = {text if len(text) <= 80 else f'{text[:77]}...'}: this schedule has none"


def check_whole_numbers(problem: Problem, *names: str) -> None:
    """See that fields are integers of 1 or more, and make them Python's own. Raises: ValueError: one is not."""
    for name in names:
        object.__setattr__(problem, name, whole(name, getattr(problem, name)))


def check_dtype(dtype: str, allowed: tuple[str, ...]) -> None:
    """Raises: ValueError: an element type that is not allowed."""
    if not isinstance(dtype, str) or dtype not in allowed:
        raise ValueError(f"dtype = {dtype!r}: must be one of {', '.join(allowed)}")
