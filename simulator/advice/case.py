"""A launch that was predicted, and what it would take if something about it were otherwise.

A change is simulated as the launch was: costs on an SM, then cycles and bytes in the engine, from the same caches
(empty ones for a launch that follows others, against itself on empty ones).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod

from ..arguments import Settings
from ..device.device import Device
from ..engine.clock import clocks_of
from ..engine.continued import Marks
from ..engine.costed import CostedLaunch
from ..launch.program import Launch, Loop, Step, Tile
from ..launch.walk import Tally, tally
from ..prediction.bottleneck import LAUNCH, TAIL, WAIT
from ..prediction.prediction import LaunchPrediction
from ..residency.residency import residency_of
from ..simulate_launches import simulate_costed
from ..sm.from_code import CompiledCost
from ..sm.what_if.changed_code import CodeChange, CodeOfLaunch, LaunchChange, unchanged
from ..sm.what_if.warp_time import WarpTime, warp_time
from ..trace.program.launch import Traced
from .accesses import Access, accesses_of

TileChange = Callable[[Tile], Tile | None]
"""A tile -> what it is instead; None: nothing."""


def as_it_is(launch: Launch) -> Launch:
    """A launch as it is."""
    return launch


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Something about a launch that is otherwise.

    Args:
        code, launch: what becomes of its code, and of its program and resources; device: that it runs on, if another.
    """

    code: CodeChange = unchanged
    launch: LaunchChange = as_it_is
    device: Device | None = None

    @property
    def is_of_costs(self) -> bool:
        """Whether what its steps take an SM changes."""
        return self.code is not unchanged or self.launch is not as_it_is


NOTHING = Change()


@dataclass(frozen=True, kw_only=True)
class Case:
    """A launch to give advice on.

    Args:
        launch, prediction: of it on the device; traced: what its code does; spilled_bytes: of a thread [B];
        known: what came of the code of each class of its CTAs, where that is known already;
        l2: what caches hold before; alone: whether its prediction is that of the launch by itself on such caches;
        marks: by which it can be simulated again on empty caches; None: there are none.
    """

    launch: Launch
    traced: Traced
    prediction: LaunchPrediction
    device: Device
    spilled_bytes: int = 0
    known: tuple[CompiledCost, ...] = ()
    l2: str = "cold"
    alone: bool = True
    marks: Marks | None = None

    @property
    def ctas(self) -> int:
        """CTAs of its grid."""
        return prod(self.launch.grid)

    @property
    def time_s(self) -> float:
        """What it takes [s]."""
        return self.prediction.traffic.time_s

    @cached_property
    def code(self) -> CodeOfLaunch | None:
        """Its code; None where its cycles do not come from there."""
        return CodeOfLaunch(self.launch, self.device) if self.prediction.cost == "compiled" else None

    @cached_property
    def costs(self) -> list[CompiledCost]:
        """What its steps take, class by class; empty where its cycles do not come from its code."""
        if self.known or not self.code:
            return list(self.known)
        return self.code.costs(residency_of(self.launch, self.device))

    @cached_property
    def warps(self) -> WarpTime | None:
        """Where its warps spend their time; None where unknown."""
        return warp_time(self.launch, self.costs) if self.costs and self.launch.traced else None

    @cached_property
    def tally(self) -> Tally:
        """What its program executes, in all."""
        return tally(self.launch.program)

    @cached_property
    def accesses(self) -> list[Access]:
        """What it does to device memory, by place of the code."""
        return accesses_of(self.traced)

    @property
    def local_bytes(self) -> int:
        """Spilled registers that go to L2 and come from there [B]."""
        return sum(
            (cost.local_read_bytes + cost.local_write_bytes) * self.tally.executions[name]
            for of_class in self.costs
            for name, cost in of_class.steps.items()
        )

    def tensor_of(self, number: int) -> str:
        """Name of memory that it was given among the tensors of its program, by its number."""
        name = next((held.name for held in self.traced.kernel.storages if held.number == number), "")
        numbered = f"{name} ({number})"
        return numbered if any(tensor.name == numbered for tensor in self.launch.program.tensors) else name

    def at(self, place: int) -> str:
        """Where in the user's source an instruction stands, e.g. ` at line 12`; empty where that is not known."""
        code = self.code.followed[0].flow.instructions if self.code else ()
        line = self.traced.kernel.line_of(code[place].address) if place < len(code) else 0
        return f" at line {line}" if line else ""

    @cached_property
    def alone_s(self) -> float:
        """What it takes by itself [s]."""
        return self.time_s if self.alone else self._simulated_s(NOTHING)

    def gain(self, change: Change) -> float:
        """How many times as fast it is with a change. Raises: ValueError, DoesNotFit: that cannot be simulated."""
        return self.alone_s / self._simulated_s(change)

    def bound(self, removed: float, without: tuple[str, ...] = ()) -> float:
        """How many times as fast it is at most without a share of its time: what keeps resources busy stays.

        Args:
            without: resources that are less busy then.
        """
        causes = self.prediction.causes
        resources = [share for name, share in causes.items() if name not in (TAIL, LAUNCH, WAIT, *without)]
        busiest = max(resources, default=0.0) + causes[LAUNCH]
        return 1.0 / max(1.0 - removed, min(1.0, busiest), 1e-3)

    def _simulated_s(self, change: Change) -> float:
        launch, device = change.launch(self.launch), change.device or self.device
        residency = residency_of(launch, device)
        if self.code is None:
            raise ValueError(f"kernel {launch.name}: its cycles do not come from its code")
        every = self.code.costs(residency, change.code, change.launch) if change.is_of_costs else self.costs
        costs = {name: cost for of_class in every for name, cost in of_class.steps.items()}
        exact = self.tally if launch.program is self.launch.program else tally(launch.program)
        costed = CostedLaunch(
            launch=launch,
            residency=residency,
            costs=costs,
            tally=exact,
            clocks=clocks_of(launch, costs, exact.executions, device),
        )
        outcome = simulate_costed([costed], device, Settings(l2=self.l2, overhead="graph"), marks=self.marks)
        return outcome.launches[0].traffic.time_s


def with_tiles(launch: Launch, change: TileChange) -> Launch:
    """A launch whose tiles are others, those that atomics give back aside."""
    return replace(launch, program=replace(launch.program, body=_changed(launch.program.body, change)))


def _changed(body: tuple[Step | Loop, ...], change: TileChange) -> tuple[Step | Loop, ...]:
    def those(tiles: tuple[Tile, ...]) -> tuple[Tile, ...]:
        changed = (tile if tile.path == "atomic" else change(tile) for tile in tiles)
        return tuple(tile for tile in changed if tile is not None)

    return tuple(
        replace(node, body=_changed(node.body, change))
        if isinstance(node, Loop)
        else replace(node, loads=those(node.loads), stores=those(node.stores))
        for node in body
    )
