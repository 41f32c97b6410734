"""What tuning says: for each launch its configurations, the fastest first, and whether the choice is worth anything."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ..simulator import units
from ..simulator.display.columns import frame
from ..simulator.prediction.kernel_row import KernelRow, fastest_first

if TYPE_CHECKING:
    from pandas import DataFrame

SCHEMA = "tilesight.tune/1"
TOP, WIDTH = 10, 120
"""Configurations of a launch, and characters of a line, by default."""
ALIKE = 0.03
"""Times that differ by no more are not told apart. The predicted best was slower than the measured best, on an H100 at
worst, by 2.4 % for GEMM, 3.7 % for decode, 4.1 % for rows; more for attention and experts (choice-h100.md)."""
SAME = 0.9
"""Of the bytes of a tensor that what runs untuned reads; whoever reads less computes something else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Configured:
    """A configuration of a launch.

    Args:
        values: parameter or option of the compiler -> value; row: what was predicted, or why nothing was.
        authors: whether the code itself names it.
    """

    values: Mapping[str, Any]
    row: KernelRow
    authors: bool = True

    @property
    def time_s(self) -> float:
        """Predicted time; without end where nothing was predicted [s]."""
        return self.row.traffic.time_s if self.row.prediction else float("inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class TunedLaunch:
    """A launch, and its configurations.

    Args:
        kernel: its name; shape: arguments that the user's function was called with.
        key: what the author's autotuner tells shapes apart by; arguments: all numbers that the kernel is passed.
        configured: the fastest first, last those that are not predicted; of equal times the one that was named first.
        left_out: values of those that a static rank left out: they are not compared.
        default: values of the configuration that runs untuned; cache: file of Triton's cache for its timings;
        cache_key: key in it.
    """

    kernel: str
    shape: Mapping[str, Any]
    key: Mapping[str, Any]
    configured: tuple[Configured, ...]
    default: Mapping[str, Any]
    left_out: tuple[Mapping[str, Any], ...] = ()
    cache: str = ""
    cache_key: tuple[Any, ...] = ()
    arguments: Mapping[str, Any] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """All of its configurations."""
        return len(self.configured) + len(self.left_out)

    @property
    def predicted(self) -> tuple[Configured, ...]:
        """Those with a time, the fastest first."""
        return tuple(item for item in self.configured if item.row.prediction)

    @property
    def best(self) -> Configured | None:
        """The fastest; None where none is predicted."""
        return self.predicted[0] if self.predicted else None

    @property
    def alike(self) -> int:
        """How many are as fast as the best, as far as predictions can tell."""
        return sum(self.is_alike(item) for item in self.predicted)

    def is_alike(self, item: Configured) -> bool:
        """Whether a configuration is as fast as the best, as far as predictions can tell."""
        return bool(self.best) and item.time_s <= (1 + ALIKE) * self.predicted[0].time_s

    @property
    def untuned(self) -> Configured | None:
        """What runs untuned; None where that is not predicted."""
        return next((item for item in self.predicted if item.values == self.default), None)

    @property
    def is_compared(self) -> bool:
        """Whether there are two to compare, where there is more than one."""
        return len(self.predicted) > 1 or self.count == 1

    def doubt(self, item: Configured) -> str:
        """Why a configuration cannot compute what runs untuned does: it reads less of a tensor; empty: it reads all."""
        usual, row = self.untuned and self.untuned.row.ceiling, item.row.ceiling
        reads = {tensor.name: tensor.loaded_bytes for tensor in row.tensors} if row else {}
        for tensor in usual.tensors if usual and row else ():
            least_bytes, read_bytes = min(tensor.loaded_bytes, tensor.size_bytes), reads.get(tensor.name, 0)
            if read_bytes < SAME * least_bytes:
                text = f"reads {units.traffic(read_bytes)} of {tensor.name}, what runs untuned "
                return f"{text}{units.traffic(least_bytes)}: unless that is scratch, it computes something else"
        return ""

    @property
    def verdict(self) -> str:
        """Whether the choice is worth anything, in one line."""
        if self.best is None:
            return "none of its configurations is predicted"
        if self.untuned is None:
            return f"what runs untuned ({text(self.default)}) is not predicted"
        if not self.is_compared:
            refused = f"{self.count - 1} of {self.count} configurations"
            return f"nothing was compared: {refused} {'are' if self.count > 2 else 'is'} refused"
        if doubt := self.doubt(self.best):
            return f"the fastest {doubt}"
        gain = self.untuned.time_s / self.best.time_s - 1
        if self.best is self.untuned:
            return "what runs untuned is the fastest: nothing is gained by tuning"
        if gain <= ALIKE:
            return f"not worth tuning: the fastest gains {gain:.1%} over what runs untuned, within {ALIKE:.0%}"
        return (
            f"the fastest takes {units.duration(self.best.time_s)}, what runs untuned "
            f"{units.duration(self.untuned.time_s)}: {1 + gain:.2f}x"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """All launches of a function that have several configurations, at one shape or several.

    Args:
        target: `FILE.py:FUNCTION`; device: name; launches: in order; notes: one line each.
    """

    target: str
    device: str
    launches: tuple[TunedLaunch, ...]
    notes: tuple[str, ...] = field(default=())

    @property
    def missing(self) -> int:
        """Configurations that the program owes an answer: it failed, or ran out of time."""
        return sum(item.row.failed for launch in self.launches for item in launch.configured)

    @property
    def incomplete(self) -> str:
        """How many are missing, in one line; empty: none is."""
        count = sum(len(launch.configured) for launch in self.launches)
        why = "the program failed or ran out of time on them, the ranks are of the others"
        return f"Incomplete: {self.missing} of {count} configurations are missing: {why}" if self.missing else ""

    @property
    def complete(self) -> bool:
        """Whether each launch has configurations that are predicted and compared, and none is missing."""
        return not self.missing and all(launch.best and launch.is_compared for launch in self.launches)

    def to_dict(self, top: int | None = None) -> dict[str, Any]:
        """The object that `tilesight tune --json` prints. Args: top: configurations of a launch; None: all."""
        return {
            "schema": SCHEMA,
            "target": self.target,
            "device": self.device,
            "complete": self.complete,
            "missing": self.missing,
            "launches": [
                {
                    "kernel": launch.kernel,
                    "shape": dict(launch.shape),
                    "key": dict(launch.key),
                    "verdict": launch.verdict,
                    "default": dict(launch.default),
                    "left_out": [dict(values) for values in launch.left_out],
                    "configurations": [_entry(launch, item) for item in launch.configured[:top]],
                }
                for launch in self.launches
            ],
            "notes": list(self.notes),
        }

    def flat_rows(self) -> list[dict[str, Any]]:
        """A flat object for each configuration, as rows of a CSV; those left out last, with values alone."""
        shapes = dict.fromkeys(name for launch in self.launches for name in launch.shape)
        names = dict.fromkeys(name for launch in self.launches for item in launch.configured for name in item.values)
        rows = []
        for launch in self.launches:
            for rank, item in enumerate(launch.configured, 1):
                figures = _figures(launch, item)
                shape = {name: launch.shape.get(name) for name in shapes}
                values = {name: item.values.get(name) for name in names}
                head = {"device": self.device, "kernel": launch.kernel}
                rows.append({**head, **shape, "rank": rank if item.row.prediction else None, **values, **figures})
            for left in launch.left_out:
                empty: dict[str, Any] = dict.fromkeys(rows[-1])
                rows.append({**empty, **head, **shape, **left, "left_out": True})
        return rows

    def to_pandas(self) -> "DataFrame":
        """A data frame: a row per configuration. Raises: ImportError: pandas is not installed."""
        return frame(self.flat_rows())

    def __str__(self) -> str:
        """The tables of `tilesight tune`."""
        text: str = _by("report", "tuning_text")(self, TOP, WIDTH)
        return text

    def to_triton_configs(self, top: int = 3) -> str:
        """Lines for `@triton.autotune`. Args: top: configurations of each launch."""
        lines: str = _by("formats", "triton_configs")(self, top)
        return lines

    def __repr__(self) -> str:
        """One line."""
        count = sum(launch.count for launch in self.launches)
        return f"<Tuning: {self.target} on {self.device}, {len(self.launches)} launches, {count} configurations>"


def _by(module: str, function: str) -> Any:
    """A function of a module here that is made of these values: loaded by name, as it imports them."""
    return getattr(import_module(f"{__package__}.{module}"), function)


def ranked(configured: Sequence[Configured]) -> tuple[Configured, ...]:
    """In the order of `fastest_first`."""
    return tuple(configured[place] for place in fastest_first([item.row for item in configured]))


def text(values: Mapping[str, Any]) -> str:
    """A configuration in a line."""
    return ", ".join(f"{name} {value}" for name, value in values.items())


def _entry(launch: TunedLaunch, item: Configured) -> dict[str, Any]:
    return {"configuration": dict(item.values), **_figures(launch, item)}


def _figures(launch: TunedLaunch, item: Configured) -> dict[str, Any]:
    """Figures of a configuration; null where it is not predicted."""
    row = item.row.prediction
    best = launch.best
    return {
        "time_s": row.traffic.time_s if row else None,
        "vs_best": item.time_s / best.time_s if row and best else None,
        "alike_best": launch.is_alike(item) if row else None,
        "lower_bound": item.row.lower_bound if row else None,
        "authors": item.authors,
        "bottleneck": row.bottleneck if row else None,
        "bottleneck_share": row.bottleneck_share if row else None,
        "ctas_per_sm": row.ctas_per_sm if row else None,
        "registers_per_thread": row.registers_per_thread if row else None,
        "spilled_bytes_per_thread": item.row.spilled_bytes_per_thread if row else None,
        "smem_bytes_per_cta": row.smem_bytes_per_cta if row else None,
        "hbm_bytes": row.traffic.hbm_bytes if row else None,
        "l2_read_bytes": row.traffic.l2_read_bytes if row else None,
        "smem_fill_bytes": row.traffic.smem_fill_bytes if row else None,
        "refused": item.row.refused,
        "left_out": False,
    }
