"""The contract of a schedule: a name, a configuration space, and a function to `Launch`es.

A schedule is one file in `schedules/` that ends in `SCHEDULE = Schedule(...)`; the registry finds it there.
Its module docstring opens with the loop nest and holds the tally table that a test checks.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import wraps
from itertools import product
from types import MappingProxyType
from typing import Any, Literal, TypeVar

from ..device.device import Device
from ..launch.program import Launch
from ..problems.attention import AttentionProblem

CTA_ORDERS = ("m-fast", "m-reversed", "head-fast", "longest-first")
KV_ORDERS = ("forward", "sawtooth")
WARP_SPLITS = ("q", "k")
SOFTMAX_VARIANTS = ("naive", "safe", "online")
Computes = Literal["attention", "softmax"]
UNNAMED: Any = None
"""Stands in a `Config` for what is left to the schedule; no configuration that a schedule runs in holds it for an
option that the schedule reads."""
PLAIN = MappingProxyType(
    {
        "cta_order": "m-fast",
        "kv_order": "forward",
        "persistent": 0,
        "warp_split": "q",
        "softmax_variant": "online",
        "warp_specialize": 0,
    }
)
"""Options that a schedule's default need not name -> their values there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The choices of a schedule that do not change what it computes.

    A field that is not named is left to the schedule: `Config()` is its default, and `Config(block_m=64)` its default
    but for the rows. Such a field reads as None; the configuration of a `Prediction` or a `Candidate` has them all, but
    for those that its schedule does not take.

    Args:
        block_m, block_n: rows and columns of a score tile; powers of two from 1 (rows) or 16 (columns) to 1024.
        num_warps: 1, 2, 4, 8, 16 or 32; num_stages: 1 to 8; as in Triton.
        cta_order: which CTAs follow each other: `m-fast` (query tiles of a head), `head-fast` (heads of a query tile),
            `m-reversed` and `longest-first` (the same, the last query tiles first: they have the longest causal rows).
        kv_order: `forward`, or `sawtooth`: odd query tiles walk K and V backwards.
        persistent: CTAs per SM of a persistent grid, each CTA looping over its items; 0 gives every item its own CTA.
        warp_split: how warps divide a tile product: `q` (rows: FlashAttention-2) or `k` (keys: FlashAttention-1).
        softmax_variant: how a row softmax finds its sum: `naive` (no maximum), `safe` (maximum first) or `online` (both
            in one pass).
        warp_specialize: 1 has some warps load and the others compute, 0 has all do both.

    Raises:
        ValueError: a field is out of range; the text names field, value and what is allowed.
    """

    block_m: int = UNNAMED
    block_n: int = UNNAMED
    num_warps: int = UNNAMED
    num_stages: int = UNNAMED
    cta_order: str = UNNAMED
    kv_order: str = UNNAMED
    persistent: int = UNNAMED
    warp_split: str = UNNAMED
    softmax_variant: str = UNNAMED
    warp_specialize: int = UNNAMED

    def __post_init__(self) -> None:
        for name, value in self.named().items():
            allowed, told = ALLOWED[name]
            if value not in allowed or isinstance(value, (bool, float)):
                raise ValueError(f"{name} = {value!r}: must be {told}")

    def __repr__(self) -> str:
        return f"Config({', '.join(f'{name}={value!r}' for name, value in self.named().items())})"

    def named(self) -> dict[str, Any]:
        """The fields that have a value, with their values."""
        return {item.name: value for item in fields(self) if (value := getattr(self, item.name)) is not None}


def _words(allowed: tuple[str, ...]) -> tuple[tuple[str, ...], str]:
    return allowed, f"one of {', '.join(allowed)}"


POWERS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
ALLOWED: dict[str, tuple[Sequence[int | str], str]] = {
    "block_m": (POWERS, "a power of two from 1 to 1024"),
    "block_n": (POWERS[4:], "a power of two from 16 to 1024"),
    "num_warps": (POWERS[:6], "one of 1, 2, 4, 8, 16, 32"),
    "num_stages": (range(1, 9), "an integer from 1 to 8"),
    "persistent": (range(33), "an integer from 0 to 32 (CTAs per SM)"),
    "warp_specialize": ((0, 1), "0 or 1"),
    "cta_order": _words(CTA_ORDERS),
    "kv_order": _words(KV_ORDERS),
    "warp_split": _words(WARP_SPLITS),
    "softmax_variant": _words(SOFTMAX_VARIANTS),
}
"""Option -> its values, and the same in words."""
NOTHING_ASKED = {"causal": False, "dropout": 0.0}
"""Fields of a problem that ask for something more -> the value that asks for nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """One way to compute attention, or the row softmax alone.

    Args:
        name: as on the command line; also the name of the Triton kernel's file.
        summary: one line for tables and help.
        source: paper and section, or code, that the loop nest is from.
        options: fields of `Config` that the schedule reads.
        default: what is taken of each option that the user does not name; those of `PLAIN` may be left out.
        space: values to try per option in `explore`.
        launches: builds the kernel launches; raises ValueError for a combination that it cannot do. Called with a
            configuration that leaves out options, it takes the default's.
        supports: None where the schedule can compute the problem, else the reason why not, in one line.
        unread: fields of the problem that it does not look at; where one of them asks for more than nothing (a mask,
            dropout), it cannot compute the problem.
        computes: `attention`, or `softmax` (of the rows of a given score matrix); only like is held against like.
        least_block_m: fewest rows of a tile; a tile product takes 16 or more.
        conflict: None where the options of a configuration go together, else which do not, in one line.
    """

    name: str
    summary: str
    source: str
    options: tuple[str, ...]
    default: Config
    space: dict[str, tuple[int | str | bool, ...]]
    launches: Callable[[AttentionProblem, Config, Device], tuple[Launch, ...]]
    supports: Callable[[AttentionProblem], str | None] = lambda problem: None
    unread: tuple[str, ...] = ("dropout",)
    computes: Computes = "attention"
    least_block_m: int = 16
    conflict: Callable[[Config], str | None] = lambda config: None

    def __post_init__(self) -> None:
        whole: dict[str, Any] = {name: PLAIN.get(name) for name in self.options} | self.default.named()
        object.__setattr__(self, "default", Config(**{name: whole[name] for name in self.options}))
        build = self.launches

        @wraps(build)
        def launches(problem: AttentionProblem, config: Config, device: Device) -> tuple[Launch, ...]:
            return build(problem, self.asked(**config.named()), device)

        object.__setattr__(self, "launches", launches)

    def __repr__(self) -> str:
        """One line: its name, and what it is."""
        return f"<Schedule {self.name}: {self.summary}>"

    def why_not(self, problem: AttentionProblem) -> str | None:
        """None where the schedule can compute the problem, else the reason why not, in one line."""
        for name in self.unread:
            if name in NOTHING_ASKED and getattr(problem, name) != NOTHING_ASKED[name]:
                return f"{name} = {getattr(problem, name)}: this schedule has none"
        return self.supports(problem)

    def configs(self, **fixed: int | str | Sequence[int | str]) -> Iterator[Config]:
        """The configuration space, in a stable order, without options that do not go together.

        Args:
            fixed: options that keep their value, or values.

        Raises:
            ValueError: a fixed option is not one of this schedule's, its value is not allowed, or it goes with nothing.
        """
        self.check_options(**dict.fromkeys(fixed, 0))
        space: dict[str, Any] = {
            name: (values,) if isinstance(values, (int, str)) else values for name, values in fixed.items()
        }
        space |= {name: values for name, values in self.space.items() if name not in fixed}
        made = [replace(self.default, **dict(zip(space, values, strict=True))) for values in product(*space.values())]
        together = [config for config in made if self.conflict(config) is None]
        yield from (self.checked(config) for config in together or made)

    @property
    def in_triton(self) -> dict[str, str]:
        """Options that Triton's compiler leaves no choice in: warps always share the rows of a tile product."""
        return {"warp_split": "q"} if "warp_split" in self.options else {}

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
        config = replace(self.default, **chosen)
        if config.block_m < self.least_block_m:
            least = self.least_block_m
            raise ValueError(f"block_m = {config.block_m}: schedule {self.name} takes {least} or more")
        return config

    def checked(self, config: Config) -> Config:
        """The configuration that a `Config` names, the rest of it the default. Raises: ValueError: as `config`."""
        return self.config(**config.named())

    def check_options(self, **chosen: int | str | bool) -> None:
        """Raises: ValueError: an option that this schedule does not read."""
        known = {field.name for field in fields(Config)}
        for name in chosen:
            if name not in known or name not in self.options:
                raise ValueError(f"{name}: schedule {self.name} does not take it; it takes {', '.join(self.options)}")


Argument = TypeVar("Argument", bound=int | float | str)


def frozen(**arguments: Argument) -> MappingProxyType[str, Argument]:
    """A read-only mapping, for `Launch.constants` and `Launch.arguments`."""
    return MappingProxyType(arguments)
