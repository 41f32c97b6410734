"""What a simulation says: frozen values that hold every figure, per launch and in total.

`to_dict` gives exactly the objects that the JSON outputs print; `report` renders the same fields for people.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from .. import units
from ..display.columns import Column, figure_columns, frame, html_table, time_column
from ..display.words import percent, short_config
from ..problems.problem import Problem
from ..schedules.config import Config
from ..traffic import Traffic
from .bottleneck import largest

if TYPE_CHECKING:
    from pandas import DataFrame

SCHEMA = "tilesight.simulate/1"
BURST_S = 0.15
"""How long power may be above its limit: an H200 slows down after a tenth to two tenths of a second [s]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchPrediction:
    """Prediction for one kernel launch.

    Args:
        name: of the kernel.
        grid: CTAs along x, y, z.
        traffic: bytes, operations, cycles, time.
        clock_hz: SM clock that turned cycles into seconds [Hz].
        sustained_clock_hz: the clock under the power limit, where the launch repeats for longer than `BURST_S` [Hz].
        overhead_s: launch overhead within `traffic.time_s` [s].
        graph_cycles: from its begin to that of the next launch in a replayed CUDA graph; 0: not known.
        causes: what the time goes to -> share of it, as `bottleneck.causes_of` divides it.
        kv_under_way_bytes: K and V of all heads that the CTAs which run at a time read [B].
        l2_fit: `near` or `beyond` where they nearly fill or exceed a partition of L2 and HBM reads them again, else
            empty (`notes`).
        utilisation: resource name -> busy fraction of the launch's cycles.
        global_smem_fraction: of the busy time of `smem`, the pipe of L1 and shared memory, the share that accesses to
            global memory take (gathers, and what passes L1); 0 where machine code was not traced.
        ctas_per_sm: CTAs that an SM holds at once.
        occupancy_fraction: active warps / max warps.
        occupancy_limit: what keeps one more CTA off an SM: registers, smem, warps, barriers or ctas.
        waves: CTAs / (SMs x residency).
        tail_fraction: share of the last wave's slots in use (1 = no tail).
        num_warps: warps of a CTA, those that the compiler adds included.
        num_stages: as in Triton.
        registers_per_thread, spilled_bytes_per_thread, smem_bytes_per_cta, resources: see `Resources`;
            resources is its origin.
        cost: where the cycles of a step come from: `compiled` (machine code), `tiles` (estimated), or `tiles: reason`
            where there is machine code that could not be used.
        simulated_fraction: share of the work that was simulated; the rest was extrapolated from a steady state.
    """

    name: str
    grid: tuple[int, int, int]
    traffic: Traffic
    clock_hz: float
    sustained_clock_hz: float
    overhead_s: float
    causes: dict[str, float]
    utilisation: dict[str, float]
    kv_under_way_bytes: int
    l2_fit: str
    ctas_per_sm: int
    occupancy_fraction: float
    occupancy_limit: str
    waves: float
    tail_fraction: float
    num_warps: int
    num_stages: int
    registers_per_thread: int
    spilled_bytes_per_thread: int
    smem_bytes_per_cta: int
    resources: str
    cost: str
    simulated_fraction: float
    global_smem_fraction: float = 0.0
    graph_cycles: float = 0.0

    def __repr__(self) -> str:
        """One line: the kernel, its grid, its time and what binds it."""
        return f"<LaunchPrediction: {self.name}, grid {' x '.join(map(str, self.grid))}: {self.summary}>"

    @property
    def summary(self) -> str:
        """Time and what binds it, e.g. `1.02 ms, bound by issue 95 %`."""
        return _summary(units.duration(self.traffic.time_s), self.bottleneck, self.bottleneck_share)

    @property
    def bottleneck(self) -> str:
        """The largest of the causes: a resource, wait, tail or launch."""
        return largest(self.causes)

    @property
    def bottleneck_share(self) -> float:
        """Share of the time that the bottleneck accounts for."""
        return self.causes[self.bottleneck]

    def to_dict(self) -> dict[str, object]:
        """The launch's object in `simulate --json`."""
        values = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "traffic"}
        values |= {"grid": list(self.grid), "bottleneck": self.bottleneck, "bottleneck_share": self.bottleneck_share}
        return {"name": values.pop("name"), **self.traffic.to_dict(), **values}


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """Prediction for one problem, schedule, configuration and device.

    Args:
        device: catalogue name or file as the user gave it.
        schedule: its name.
        launches: one per kernel launch, in order.
        peak_memory_bytes: most device memory held at once [B].
        fits: whether the device has it.
        notes: remarks for the user, one line each.
        lower_bound: whether waits of CTAs for each other were left out, so that it takes the time at least.
    """

    device: str
    schedule: str
    problem: Problem
    config: Config
    options: tuple[str, ...]
    launches: tuple[LaunchPrediction, ...]
    peak_memory_bytes: int
    fits: bool
    notes: tuple[str, ...] = ()
    lower_bound: bool = False

    def __repr__(self) -> str:
        """One line: what was asked, its time and what binds it."""
        return f"<Prediction: {self._title}: {self.summary}>"

    def _repr_html_(self) -> str:
        every = [launch.to_dict() for launch in self.launches]
        names = Column("launch", [launch.name for launch in self.launches], left=True)
        columns = [names, time_column(every), *figure_columns(every)]
        return html_table(f"{self._title}: {self.summary}", columns, [f"Note: {note}" for note in self.notes])

    @property
    def _title(self) -> str:
        config = short_config(self.config)
        return f"{self.schedule} {config}, {self.problem.text} on {self.device}"

    @property
    def summary(self) -> str:
        """Time and what binds it, e.g. `1.02 ms, bound by issue 95 %`."""
        return _summary(self.time_text, self.bottleneck, self.bottleneck_share)

    @property
    def time_text(self) -> str:
        """Its time for people; `>= 132 us` where it is a lower bound."""
        return f"{'>= ' if self.lower_bound else ''}{units.duration(self.time_s)}"

    def to_pandas(self) -> "DataFrame":
        """A data frame: a row per launch, in order; the figures of `simulate --json`, e.g. `causes.wait`, are columns.

        Raises:
            ImportError: pandas is not installed.
        """
        asked = {"device": self.device, "schedule": self.schedule, **self.config_dict()}
        return frame([asked | _flat_names(launch.to_dict()) for launch in self.launches])

    @property
    def total(self) -> Traffic:
        """Sum over the launches."""
        return sum((launch.traffic for launch in self.launches), Traffic())

    @property
    def is_extrapolated(self) -> bool:
        """Whether a part of any launch was continued from a steady state."""
        return any(launch.simulated_fraction < 1.0 for launch in self.launches)

    @property
    def time_s(self) -> float:
        """Predicted time of all launches [s]."""
        return self.total.time_s

    @property
    def bottleneck(self) -> str:
        """Bottleneck of the launch that takes longest."""
        return self.longest_launch.bottleneck

    @property
    def bottleneck_share(self) -> float:
        """Share of that launch's time that it accounts for."""
        return self.longest_launch.bottleneck_share

    @property
    def longest_launch(self) -> LaunchPrediction:
        """The launch that takes longest; the first of equals."""
        return max(self.launches, key=lambda launch: launch.traffic.time_s)

    @property
    def spilled_bytes_per_thread(self) -> int:
        """Most that a thread of any launch spills [B]."""
        return max(launch.spilled_bytes_per_thread for launch in self.launches)

    @property
    def l2_fit(self) -> str:
        """How K and V fit into L2 in the launch that they crowd it most; empty where they do, or are read once."""
        return max(self.launches, key=lambda launch: bool(launch.l2_fit) * launch.kv_under_way_bytes).l2_fit

    @property
    def clock_hz(self) -> float:
        """Total cycles over total kernel time, overhead left out [Hz]."""
        kernel_s = sum(launch.traffic.time_s - launch.overhead_s for launch in self.launches)
        return self.total.cycles / kernel_s

    @property
    def sustained_time_s(self) -> float:
        """Time of all launches when they are repeated for longer than `BURST_S` [s]."""
        return sum(launch.overhead_s + launch.traffic.cycles / launch.sustained_clock_hz for launch in self.launches)

    def config_dict(self) -> dict[str, object]:
        """The options that the schedule reads, with their values."""
        return {name: getattr(self.config, name) for name in self.options}

    def total_dict(self) -> dict[str, object]:
        """The figures of all launches together, as in `simulate --json`."""
        total = self.total.to_dict()
        total |= {"clock_hz": self.clock_hz, "bottleneck": self.bottleneck, "bottleneck_share": self.bottleneck_share}
        return total | {"peak_memory_bytes": self.peak_memory_bytes, "fits": self.fits}

    def to_dict(self) -> dict[str, object]:
        """The object that `simulate --json` prints."""
        return {
            "schema": SCHEMA,
            "device": self.device,
            "schedule": self.schedule,
            "problem": self.problem.to_dict(),
            "config": self.config_dict(),
            "launches": [launch.to_dict() for launch in self.launches],
            "total": self.total_dict(),
            "lower_bound": self.lower_bound,
            "notes": list(self.notes),
        }


def _summary(time: str, bottleneck: str, share: float) -> str:
    return f"{time}, bound by {bottleneck} {percent(share)}"


def _flat_names(nested: Mapping[str, object]) -> dict[str, Any]:
    """The same with a value of its own for every entry of a mapping within."""
    flat: dict[str, Any] = {}
    for name, value in nested.items():
        flat |= {f"{name}.{key}": entry for key, entry in value.items()} if isinstance(value, dict) else {name: value}
    return flat
