"""A point as `validate` runs it, interpreted: outputs right and all written, scratch freed after its last use."""

import weakref
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from tilesight.kernels.launch.launch import allocate
from tilesight.simulator.device.device import load_device
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.validate.measure import pipeline as room
from tilesight.validate.measure.oracle import oracle_error
from tilesight.validate.measure.output_checks import is_stale, poison, untouched_fraction
from tilesight.validate.measure.pipeline import prepare
from tilesight.validate.points.point import Point, runnable_config, runnable_schedules

CPU = torch.device("cpu")
H200 = load_device("h200")
PROBLEM = AttentionProblem(batch=1, heads=2, kv_heads=1, seqlen_q=96, seqlen_k=160, head_dim=32)
# A softmax of rows knows no mask.
CASES = [(name, causal) for name in runnable_schedules() for causal in (False, True)]
CASES.remove(("online_softmax", True))


class Held:
    """Counts the memory of live tensors in the place of torch's allocator."""

    def __init__(self) -> None:
        self.now = self.peak = 0

    def allocate(self, *arguments: object) -> torch.Tensor:
        memory = allocate(*arguments)  # type: ignore[arg-type]
        self.now += memory.nbytes
        self.peak = max(self.peak, self.now)
        weakref.finalize(memory, self.free, memory.nbytes)
        return memory

    def free(self, size_bytes: int) -> None:
        self.now -= size_bytes


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[Held]:
    """torch.cuda's memory figures, from the tensors that a pipeline allocates."""
    counted = Held()
    monkeypatch.setattr(room, "allocate", counted.allocate)
    cuda = SimpleNamespace(
        memory_allocated=lambda place: counted.now,
        max_memory_allocated=lambda place: counted.peak,
        reset_peak_memory_stats=lambda place: setattr(counted, "peak", counted.now),
        synchronize=lambda place=None: None,
    )
    for name, function in vars(cuda).items():
        monkeypatch.setattr(torch.cuda, name, function)
    yield counted


@pytest.mark.parametrize(("schedule", "causal"), CASES)
def test_a_pipeline_is_measured_as_it_should_be(schedule: str, causal: bool, held: Held) -> None:
    """Right by the oracle, nothing left unwritten, not stale; memory as the simulator says, before rounding."""
    problem = replace(PROBLEM, causal=causal)
    launches = Point(schedule=schedule, problem=problem, config=runnable_config(schedule)).launches(H200)
    pipeline, peak_bytes = prepare(launches, problem, CPU)
    poison(pipeline.outputs)
    pipeline.run()
    assert untouched_fraction(pipeline.outputs) == 0
    assert 0 <= oracle_error(schedule, problem, launches[-1], pipeline.tensors) <= 1
    assert not is_stale(pipeline.run, pipeline.outputs, pipeline.last_input)
    sizes = {tensor.name: tensor.size_bytes for launch in launches for tensor in launch.program.tensors}
    kept = {tensor.name for launch in launches for tensor in launch.program.tensors if tensor.role != "scratch"}
    named = [{tensor.name for tensor in launch.program.tensors} for launch in launches]
    alive = [
        kept | (set().union(*named[: number + 1]) & set().union(*named[number:])) for number in range(len(launches))
    ]
    assert peak_bytes == max(sum(sizes[name] for name in names) for names in alive)


def test_kernels_that_do_nothing_are_seen(held: Held) -> None:
    """Poison stays, and the oracle does not mistake it for an output."""
    launches = Point(schedule="flash2", problem=PROBLEM, config=runnable_config("flash2")).launches(H200)
    pipeline, _ = prepare(launches, PROBLEM, CPU)
    poison(pipeline.outputs)
    assert untouched_fraction(pipeline.outputs) == 1
    assert not oracle_error("flash2", PROBLEM, launches[-1], pipeline.tensors) <= 1


def test_inputs_are_the_same_each_time(held: Held) -> None:
    """Two processes, one that times and one that counts, run the same numbers."""
    launches = Point(schedule="unfused", problem=PROBLEM, config=runnable_config("unfused")).launches(H200)
    first, second = (prepare(launches, PROBLEM, CPU)[0] for _ in range(2))
    for name in ("Q", "K", "V", "MASK"):
        assert torch.equal(first.tensors[name], second.tensors[name])
