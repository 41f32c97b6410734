"""What a step costs an SM, from compiled code: the door to the simulation of an SM.

In: the SASS of a launch, and the launch. Out: a `StepCost` for each step, of the same form as the estimate from tiles,
with one pipe more, `sm`: the cycles after which a full SM finishes another CTA's step. The lone CTA's time is the
critical path. Data come after the latency of an L2 hit, so that what the code hides of it is hidden:
a memory engine that uses these costs must charge only what goes beyond (misses, queues), neither that latency
nor the SM's own port.

Steps and code: working loops of the code and loops of the tile program must nest alike, in the same order
(a persistent grid's loop over items aside). What stands in a loop, and in no loop inside it, is the cost of the first
step there. Code before the first outer loop is the first step's outside of loops; all else outside is the last one's.
A full SM's share of code outside of the innermost loops is what CTAs that follow each other take beyond their loops,
divided as a lone CTA's time is.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from .core import sm
from .cost import PIPES, StepCost, step_cost
from .device import Device
from .occupancy import occupancy
from .program import Launch, Loop, Step
from .sass.decode import decode
from .sass.flow import Flow, find_flow
from .sm_code import SHARED_LINE_BYTES, lower_code
from .sm_trace import HEADER, find_trace, working_loops
from .walk import moved_bytes, steps, tally

COMPILED_PIPES = (*PIPES, "sm")
COPY_CYCLES, BULK_CYCLES = 280.0, 353.0
"""Latency of an L2 hit; of a bulk copy, what its 517 cycles for 16 KiB leave beside the data."""
FILL = 1.28
"""Cycles of the way from L2 for one of shared memory: 443 cycles for an LDGSTS tile of 16 KiB, 280 before its data."""
MATMUL_WAIT_CYCLES = 40.0
"""wgmma: a turn of four products and their wait takes 54 cycles (A in registers) beyond the products; about 14 of them
are the turn's own instructions."""
MATMUL_QUEUE = 4
"""Products of a warpgroup that wait in front of the tensor cores: fitted."""
BARRIER_ARRIVAL_CYCLES, BARRIER_CYCLES = 2.0, 12.0
"""bar.sync after bar.sync: 20.6 cycles for 4 warps, 28.6 for 8, 44.6 for 16."""
BURST_CYCLES, BURST_PERIOD_CYCLES, BURST_RUN = 4.33, 5.2, 8
"""How a tensor core under wgmma takes the register port of its sub-core; set to what one instruction of each kind takes
beside a stream of m64n128k16: 4.4 to 5.8 cycles where it takes 2 to 4.2 alone, EX2 10.6 for 8.0, FFMA without a gap
1.3 to 1.8 while the products starve."""
DISPATCH_CYCLES = 321.0
"""From the end of a CTA to the begin of the next in its place.

Source of all of these but the fitted one: one H200, CUDA 13.0, 2026-11-21, `tilesight calibrate` (microbenchmarks).
"""
LONE_TRIPS, SETTLED, SHARED_TRIPS, SHORT_TRIPS = 8, 4, 24, 6
"""Iterations of a loop run by a lone CTA; until its pace has settled; by CTAs together; by CTAs that follow others."""
ROUNDS = 4
"""CTAs that a slot runs one after the other."""


PAIRED = 2
"""Ways of shifting CTAs against each other over which their common pace is averaged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledCost:
    """Costs of a launch's steps, and how they came about.

    Args:
        steps: step name -> cost; pipe_cycles as in `COMPILED_PIPES`.
        resident: CTAs of a full SM.
        unknown: opcodes that no rule knows -> how often they stand in the code.
        flow: the code; trips: loop -> iterations in the run that the tables show.
        issues: int64 (instructions,), issues on a full SM until every slot had finished `ROUNDS` CTAs;
        stalls: float64 (instructions, reasons of `core.sm`), cycles that warps waited before each, in the same run;
        blames: float64 (instructions,), cycles of others that waited for its scoreboard.
    """

    steps: dict[str, StepCost]
    resident: int
    unknown: Counter[str]
    flow: Flow
    trips: dict[int, int]
    issues: np.ndarray
    stalls: np.ndarray
    blames: np.ndarray


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    log: np.ndarray
    issues: np.ndarray
    stalls: np.ndarray
    blames: np.ndarray
    pipes: np.ndarray

    def times(self, slot: int, mark: int) -> np.ndarray:
        """When a slot's first warp passed a mark."""
        chosen = (self.log[:, sm.LOG_SLOT] == slot) & (self.log[:, sm.LOG_MARK] == mark)
        times: np.ndarray = self.log[chosen, sm.LOG_TIME]
        return times

    @property
    def end(self) -> float:
        """When the last CTA was done [cycles]."""
        return float(self.log[-1, sm.LOG_TIME])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Machine:
    """Code and warps, ready to be run."""

    flow: Flow
    code: np.ndarray
    rates: np.ndarray
    warps: int

    def run(self, trips: Mapping[int, int], offsets: np.ndarray, rounds: int = 1) -> _Run:
        trace = find_trace(self.flow, trips)
        size = len(self.code)
        log = np.zeros((16 + len(offsets) * (rounds + 2) * (len(trace) + 4), 3))
        issues, stalls, blames = np.zeros(size, dtype=np.int64), np.zeros((size, sm.REASONS)), np.zeros(size)
        pipes = np.zeros(sm.PIPES + 3)
        latencies = sm.Latencies(
            copy=COPY_CYCLES,
            bulk=BULK_CYCLES,
            fill=FILL,
            arrival=BARRIER_ARRIVAL_CYCLES,
            barrier=BARRIER_CYCLES,
            matmul_wait=MATMUL_WAIT_CYCLES,
            matmul_queue=MATMUL_QUEUE,
            burst=BURST_CYCLES,
            period=BURST_PERIOD_CYCLES,
            run=BURST_RUN,
            dispatch=DISPATCH_CYCLES,
        )
        roles = np.array([(0, len(trace))] * self.warps, dtype=np.int64)
        logged = sm.simulate_sm(
            self.code, self.rates, trace, roles, latencies, offsets, rounds, log, issues, stalls, blames, pipes
        )
        if logged < 0:
            raise ValueError("compiled code: its warps wait for each other for ever")
        return _Run(log=log[:logged], issues=issues, stalls=stalls, blames=blames, pipes=pipes)


def compiled_costs(launch: Launch, device: Device, sass_text: str, element_bytes: int) -> CompiledCost:
    """Simulate an SM with one CTA of a launch, and with as many as it holds.

    Args:
        sass_text: what `cuobjdump -sass` prints of the kernel; element_bytes: of the matmul operands [B].

    Raises:
        ValueError: code and tile program do not nest alike, or warps are specialised; one line.
        DoesNotFit: a CTA needs more than an SM has.
    """
    if launch.consumer_warps:
        raise ValueError(f"kernel {launch.name}: warps are specialised, and each kind walks a way of its own")
    flow = find_flow(decode(sass_text))
    code, rates, unknown = lower_code(flow.instructions, int(device.compute_capability.replace(".", "")))
    resident = occupancy(launch.resources, launch.warps_per_cta, device).ctas_per_sm
    nest = match_loops(launch, flow)
    _fill_bulk_copies(launch, flow, nest, code, rates)
    machine = _Machine(flow=flow, code=code, rates=rates, warps=launch.warps_per_cta)
    alone = _lone(machine, nest)
    full, run, trips = _full(machine, nest, alone, resident)
    estimate = {step.name: step_cost(step, launch, device, element_bytes) for step, _ in steps(launch.program.body)}
    made = {
        name: replace(cost, pipe_cycles=(0.0,) * len(COMPILED_PIPES), critical_path_cycles=0.0, covers_l2=True)
        for name, cost in estimate.items()
    }
    for part, name in nest.steps.items():
        own, before = np.array((*alone[part].pipes, full[part])), made[name]
        made[name] = replace(
            before,
            pipe_cycles=tuple((own + before.pipe_cycles).tolist()),
            critical_path_cycles=before.critical_path_cycles + max(alone[part].cycles, full[part]),
        )
    return CompiledCost(
        steps=made,
        resident=resident,
        unknown=unknown,
        flow=flow,
        trips=trips,
        issues=run.issues,
        stalls=run.stalls,
        blames=run.blames,
    )


BEFORE, REST = -1, -2
"""Parts of the code beside the loops: what runs before the first outer loop, and what else is outside of loops."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Nest:
    """Which loop of the code is which of the tile program.

    Args:
        parents: loop of the code -> the loop around it, or -1; only those that the tile program has.
        steps: part of the code (a loop without those inside, `BEFORE` or `REST`) -> the step that pays for it.
    """

    parents: dict[int, int]
    steps: dict[int, str]

    @property
    def leaves(self) -> tuple[int, ...]:
        """Loops with none inside."""
        return tuple(loop for loop in self.parents if loop not in self.parents.values())


def match_loops(launch: Launch, flow: Flow) -> Nest:
    """Which step pays for which part of the code.

    Raises:
        ValueError: the loops of code and tile program do not nest alike.
    """
    executed = tally(launch.program).executions
    working = working_loops(flow)
    parent = {number: flow.loops[number].parent for number in working}
    persistent = launch.cta_count < launch.program.item_count
    outer = [number for number in working if parent[number] == -1]
    top = -1
    if persistent and len(outer) == 1:
        top = outer[0]
    parents: dict[int, int] = {}
    names: dict[int, str] = {}

    def match(body: tuple[Step | Loop, ...], around: int, above: int) -> None:
        inner = [number for number in working if parent[number] == around]
        loops = [node for node in body if isinstance(node, Loop) and _runs(node, executed)]
        # A loop of a known number of trips may have been unrolled.
        rolled = [node for node in loops if isinstance(node.trips, str)]
        wanted = next((some for some in (loops, rolled) if len(some) == len(inner)), None)
        if wanted is None:
            raise ValueError(
                f"kernel {launch.name}: compiled code has {len(inner)} loops where its tile program has {len(loops)}"
            )
        for number, node in zip(inner, wanted, strict=True):
            parents[number] = above
            own = _first_step(node.body)
            if own is not None:
                names[number] = own
            match(node.body, number, number)

    match(launch.program.body, top, -1)
    plain = [node.name for node in launch.program.body if isinstance(node, Step)]
    if not plain:
        plain = [step.name for step, _ in steps(launch.program.body)]
    names[BEFORE], names[REST] = plain[0], plain[-1]
    return Nest(parents=parents, steps=names)


def _fill_bulk_copies(launch: Launch, flow: Flow, nest: Nest, code: np.ndarray, rates: np.ndarray) -> None:
    """Enter what a bulk copy moves, which its instruction does not tell: an even part of what the step loads by TMA."""
    moved = {
        step.name: sum(
            moved_bytes(launch.program.tensor(tile.tensor), tile.rows, tile.cols)
            for tile in step.loads
            if tile.path == "tma"
        )
        for step, _ in steps(launch.program.body)
    }
    places: dict[int, list[int]] = {}
    for number, block in enumerate(flow.blocks):
        loop = flow.loop_of(number)
        while loop >= 0 and loop not in nest.parents:
            loop = flow.loops[loop].parent
        bulk = [place for place in range(block.first, block.stop) if code[place, sm.KIND] == sm.BULK]
        places.setdefault(loop, []).extend(bulk)
    for loop, bulk in places.items():
        # Outside of loops, copies fetch what the first iterations of a loop need, or what its step of its own loads.
        bytes_ = moved[nest.steps[loop]] if loop >= 0 else max(moved.values()) * len(bulk) / 2
        for place in bulk:
            rates[place, sm.SMEM] = bytes_ / len(bulk) / SHARED_LINE_BYTES


def _runs(loop: Loop, executed: Mapping[str, int]) -> bool:
    return any(executed.get(step.name, 0) > 0 for step, _ in steps(loop.body))


def _first_step(body: tuple[Step | Loop, ...]) -> str | None:
    return next((node.name for node in body if isinstance(node, Step)), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """One execution of a part by a lone CTA. Args: pipes: as in `PIPES`; cycles: how long it takes."""

    cycles: float
    pipes: tuple[float, ...]


def _pipes(run: _Run) -> np.ndarray:
    """Cycles of use of each of `PIPES`; what each sub-core has of its own, averaged over them."""
    own = run.pipes / sm.SUB_CORES
    tensor = run.pipes[sm.PIPES] + own[sm.TENSOR_PIPE]
    fma = own[sm.FMA] + own[sm.HEAVY]
    return np.array((tensor, own[sm.MUFU], fma, own[sm.ALU], own[sm.PIPES + 2], run.pipes[sm.PIPES + 1]))


def _lone(machine: _Machine, nest: Nest) -> dict[int, _Part]:
    """What each part takes a CTA that has the SM for itself."""
    base = {loop: LONE_TRIPS if loop in nest.leaves else 1 for loop in nest.parents}
    first = machine.run(base, np.zeros(1))
    parts: dict[int, _Part] = {}
    cycles, used = first.end, _pipes(first)
    for loop in sorted(nest.parents, key=lambda loop: machine.flow.loops[loop].depth, reverse=True):
        more = machine.run(base | {loop: base[loop] + SETTLED}, np.zeros(1))
        took, pipes = (more.end - first.end) / SETTLED, (_pipes(more) - _pipes(first)) / SETTLED
        for other, part in parts.items():
            if nest.parents[other] == loop:
                took -= base[other] * part.cycles
                pipes = pipes - base[other] * np.array(part.pipes)
        parts[loop] = _Part(cycles=max(0.0, took), pipes=tuple(np.maximum(pipes, 0.0)))
    for loop, part in parts.items():
        times = base[loop]
        above = nest.parents[loop]
        while above >= 0:
            times, above = times * base[above], nest.parents[above]
        cycles, used = cycles - times * part.cycles, used - times * np.array(part.pipes)
    # How the rest divides between begin and end is seen from when the first loop begins.
    outer = [loop for loop, above in nest.parents.items() if above == -1]
    begins = first.times(0, 2 * outer[0] + HEADER) if outer else np.array([first.end])
    share = min(1.0, float(begins[0]) / cycles) if cycles > 0 and outer else 1.0
    used = np.maximum(used, 0.0)
    parts[BEFORE] = _Part(cycles=share * cycles, pipes=tuple(share * used))
    parts[REST] = _Part(cycles=(1.0 - share) * cycles, pipes=tuple((1.0 - share) * used))
    return parts


def _full(
    machine: _Machine, nest: Nest, alone: dict[int, _Part], resident: int
) -> tuple[dict[int, float], _Run, dict[int, int]]:
    """By how much each part holds up a full SM: the cycles after which it finishes another CTA's."""
    paces: dict[int, float] = {}
    for loop in nest.leaves:
        measured = [_pace(machine, nest, alone, loop, resident, turn) for turn in range(PAIRED if resident > 1 else 1)]
        paces[loop] = float(np.mean(measured))
    trips = {loop: SHORT_TRIPS if loop in nest.leaves else 1 for loop in nest.parents}
    inside = sum(trips[loop] * pace for loop, pace in paces.items())
    others = {part: one.cycles for part, one in alone.items() if part not in paces}
    expected = inside * resident + sum(others.values())
    run = machine.run(trips, expected * np.arange(resident) / resident, ROUNDS)
    ends = [run.times(slot, sm.EXIT) for slot in range(resident)]
    turn = float(np.mean([(end[ROUNDS - 1] - end[0]) / (ROUNDS - 1) for end in ends])) - DISPATCH_CYCLES
    rest = min(max(turn / resident - inside, sum(others.values()) / resident), sum(others.values()))
    scale = rest / sum(others.values())
    return paces | {part: scale * cycles for part, cycles in others.items()}, run, trips


def _pace(machine: _Machine, nest: Nest, alone: dict[int, _Part], loop: int, resident: int, turn: int) -> float:
    """Cycles after which a full SM, all its CTAs in a loop, finishes another iteration."""
    if resident == 1:
        return alone[loop].cycles
    trips = {other: SETTLED if other in nest.leaves else 1 for other in nest.parents}
    trips[loop] = SHARED_TRIPS + resident
    # CTAs that start together stay close to each other; how close makes little difference.
    apart = alone[loop].cycles * (0.3 if turn == 0 else 0.7) * np.arange(resident) / resident
    run = machine.run(trips, apart)
    begins = [run.times(slot, 2 * loop + HEADER) for slot in range(resident)]
    start = max(times[SETTLED] for times in begins)
    stop = min(times[-1] for times in begins)
    done = sum(
        np.interp(stop, times, range(len(times))) - np.interp(start, times, range(len(times))) for times in begins
    )
    return float((stop - start) / done)
