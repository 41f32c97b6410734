"""What the laws of the engine draw from: toy GPUs with every kind of L2, small problems, all schedules.

Half of the cases are stepped through, half are grids of many CTAs that are continued from their steady state.
"""

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st
from schedules import contract
from support.strategies import configs, dtypes_of, problems, read_by, toys
from tilesight.simulator.device.device import Device
from tilesight.simulator.launch.program import Launch
from tilesight.simulator.prediction.prediction import Prediction
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.refusal import Refusal
from tilesight.simulator.residency.occupancy import occupancy
from tilesight.simulator.schedules.config import Config
from tilesight.simulator.schedules.registry import written_schedules
from tilesight.simulator.simulate import launches_of, simulate

KIB = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Something to simulate, small enough to walk access by access."""

    problem: AttentionProblem
    schedule: str
    config: Config
    device: Device
    steady_state: bool = False

    def simulate(self, **options: object) -> Prediction:
        """The prediction; every CTA is stepped through, or the grid is continued from its steady state."""
        return _simulated(self, tuple(sorted(options.items())))

    @property
    def launches(self) -> tuple[Launch, ...]:
        """What is simulated."""
        return launches_of(self.problem, self.schedule, self.config, self.device)


@lru_cache(maxsize=64)
def _simulated(case: Case, options: tuple[tuple[str, object], ...]) -> Prediction:
    """Several laws look at the same prediction, and drawing a case has made one already."""
    asked: dict[str, object] = {"steady_state": case.steady_state, **dict(options)}
    return simulate(
        case.problem, schedule=case.schedule, config=case.config, device=case.device, **asked  # type: ignore[arg-type]
    )  # fmt: skip


@st.composite
def gpus(draw: st.DrawFn, schedule: str) -> Device:
    """1 to 5 SMs, one partition or two, 64 KiB to 1 MiB of L2, coalescers for 1 to 3 SMs."""
    return replace(
        draw(st.sampled_from(toys(schedule))),
        sms=draw(st.integers(1, 5)),
        l2_partitions=draw(st.integers(1, 2)),
        l2_bytes=draw(st.sampled_from((64, 100, 256, 1024))) * KIB,
        coalescer_sms=draw(st.integers(1, 3)),
    )


SCHEDULES = tuple(written_schedules())


@st.composite
def stepped(draw: st.DrawFn, schedules: tuple[str, ...] = SCHEDULES) -> Case:
    """A problem, one of these schedules, a configuration that fits, a GPU; every CTA is stepped through."""
    schedule = draw(st.sampled_from(schedules))
    config = draw(configs(written_schedules()[schedule]))
    return _fitting(
        Case(
            problem=read_by(written_schedules()[schedule], draw(problems(dtypes=dtypes_of(config)))),
            schedule=schedule,
            config=config,
            device=draw(gpus(schedule)),
        )
    )


@st.composite
def continued(draw: st.DrawFn, schedules: tuple[str, ...] = SCHEDULES) -> Case:
    """Many short heads on a GPU of few SMs and a small L2, of which one launch at least is continued in fact."""
    schedule = draw(st.sampled_from(schedules))
    drawn = draw(configs(written_schedules()[schedule]))
    config = drawn.but(persistent=0) if drawn.named().get("persistent") else drawn
    problem = replace(
        read_by(written_schedules()[schedule], draw(problems(dtypes=dtypes_of(config)))),
        batch=draw(st.sampled_from((64, 96, 128))),
        seqlen_q=draw(st.sampled_from((1, 32, 48))),
        seqlen_k=draw(st.sampled_from((32, 64, 100))),
    )
    device = replace(draw(gpus(schedule)), sms=draw(st.integers(1, 2)), l2_bytes=64 * KIB)
    case = _fitting(Case(problem=problem, schedule=schedule, config=config, device=device, steady_state=True))
    assume(min(launch.simulated_fraction for launch in case.simulate().launches) < 1)
    return case


def cases(schedules: tuple[str, ...] = SCHEDULES) -> st.SearchStrategy[Case]:
    """What every law holds for, with the steady state as without."""
    return st.one_of(stepped(schedules), continued(schedules))


def _fitting(case: Case) -> Case:
    fits = [occupancy(launch.resources, launch.warps_per_cta, case.device) for launch in case.launches]
    assume(not any(isinstance(fit, Refusal) for fit in fits))
    return case


def bytes_touched_first(launches: tuple[Launch, ...], kind: str) -> int:
    """Bytes of the elements that a pipeline loads before it stores them, or that it stores, each once [B]."""
    tensors = contract.tensors_of(launches)
    counts = contract.counts(launches, kind)
    inputs = {name for name, tensor in tensors.items() if (tensor.role == "input") == (kind == "load")}
    return sum(int(np.count_nonzero(counts[name])) * tensors[name].element_bytes for name in inputs)
