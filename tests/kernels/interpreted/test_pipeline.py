"""A point as `validate` runs it, interpreted: outputs right and all written, scratch freed after its last use."""

import weakref
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tilesight.kernels.launch.launch import allocate
from tilesight.simulator.device.device import load_device
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.problems.latent_attention import LatentAttentionProblem
from tilesight.simulator.schedules.registry import find_schedule
from tilesight.validate.measure import pipeline
from tilesight.validate.measure.oracle import cached, oracle_error
from tilesight.validate.measure.output_checks import is_stale, poison, untouched_fraction
from tilesight.validate.measure.pipeline import prepare
from tilesight.validate.points.point import Point, runnable_config, runnable_schedules
from tilesight.validate.points.shapes import problem_for

CPU = torch.device("cpu")
H200 = load_device("h200")
SHAPE = {"batch": 1, "heads": 2, "kv_heads": 1, "seqlen_q": 96, "seqlen_k": 160, "head_dim": 32}
PROBLEM = AttentionProblem(**SHAPE)
# A softmax of rows knows no mask.
CASES = [(name, causal) for name in runnable_schedules() for causal in (False, True)]
CASES.remove(("online_softmax", True))
CACHES = (
    {"page": 16},
    {"page": 64, "page_order": "sequential", "causal": True},
    {"batch": 3, "lengths": (160, 1, 77)},
    {"batch": 2, "lengths": (80, 160), "page": 32, "kv_dtype": "i8"},
    {"kv_dtype": "fp8", "causal": True, "window": 50},
    {"sinks": True, "softcap": 5.0},
)
MASKS = (
    {"mask": "prefix:100"},
    {"mask": "documents:100,60", "seqlen_q": 160, "causal": True},
    {"mask": "blocks:101/010/000", "seqlen_k": 192},
    {"mask": "first:4", "window": 30, "sinks": True},
    {"mask": "band:20", "softcap": 5.0},
)


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
    monkeypatch.setattr(pipeline, "allocate", counted.allocate)
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
    named = find_schedule(schedule)
    rows = {"seqlen_q": 2} if named.coverage.shapes in ("decode", "latent") else {}
    problem = problem_for(named, SHAPE | {"causal": causal} | rows)
    launches = Point(schedule=schedule, problem=problem, config=runnable_config(schedule)).launches(H200)
    made, peak_bytes = prepare(launches, problem, CPU)
    poison(made.outputs)
    made.run()
    assert untouched_fraction(made.outputs) == 0
    assert 0 <= oracle_error(schedule, problem, launches[-1], made.tensors) <= 1
    assert not is_stale(made.run, made.outputs, made.last_input)
    sizes = {tensor.name: tensor.size_bytes for launch in launches for tensor in launch.program.tensors}
    kept = {tensor.name for launch in launches for tensor in launch.program.tensors if tensor.role != "scratch"}
    named = [{tensor.name for tensor in launch.program.tensors} for launch in launches]
    alive = [
        kept | (set().union(*named[: number + 1]) & set().union(*named[number:])) for number in range(len(launches))
    ]
    assert peak_bytes == max(sum(sizes[name] for name in names) for names in alive)


@pytest.mark.parametrize("cache", CACHES, ids=str)
def test_caches_of_all_kinds_are_read_as_the_oracle_reads_them(cache: dict[str, Any], held: Held) -> None:
    """In pages, ragged, narrow, behind a window: right, and wrong against other values."""
    problem = replace(PROBLEM, seqlen_q=2, **cache)
    launches = Point(
        schedule="flash_decode", problem=problem, config=runnable_config("flash_decode", splits=2)
    ).launches(H200)
    made, _ = prepare(launches, problem, CPU)
    poison(made.outputs)
    made.run()
    assert untouched_fraction(made.outputs) == 0
    assert 0 <= oracle_error("flash_decode", problem, launches[-1], made.tensors) <= 1
    assert not is_stale(made.run, made.outputs, made.last_input)
    _, values = cached(problem, made.tensors, (0, 0, 0, 1))
    assert values.shape == (problem.key_lengths[0], problem.head_dim)
    made.tensors["V"].view(torch.uint8).fill_(0)
    assert oracle_error("flash_decode", problem, launches[-1], made.tensors) > 1


def test_latents_are_keys_and_values_to_the_oracle(held: Held) -> None:
    """Ragged and in pages: right, and wrong where one element of a latent is another."""
    problem = LatentAttentionProblem(
        batch=2, heads=20, seqlen_q=2, seqlen_k=160, latent_dim=64, rope_dim=16, lengths=(77, 160), page=32, causal=True
    )
    launches = Point(schedule="mla_decode", problem=problem, config=runnable_config("mla_decode", splits=2)).launches(
        H200
    )
    made, _ = prepare(launches, problem, CPU)
    poison(made.outputs)
    made.run()
    assert untouched_fraction(made.outputs) == 0
    assert 0 <= oracle_error("mla_decode", problem, launches[-1], made.tensors) <= 1
    keys, values = cached(problem, made.tensors, (0, 19, 0, 1))
    assert (keys.shape, values.shape) == ((77, 80), (77, 64))
    assert not is_stale(made.run, made.outputs, made.last_input)
    made.tensors["C"][..., 63] += 1
    assert oracle_error("mla_decode", problem, launches[-1], made.tensors) > 1


@pytest.mark.parametrize("mask", MASKS, ids=str)
def test_masks_of_all_kinds_are_judged_as_they_are(mask: dict[str, Any], held: Held) -> None:
    """Right, and wrong where the same outputs are held against the plain causal mask."""
    problem = replace(PROBLEM, **mask)
    config = runnable_config("masked_flash", block_m=32, block_n=32)
    launches = Point(schedule="masked_flash", problem=problem, config=config).launches(H200)
    made, _ = prepare(launches, problem, CPU)
    poison(made.outputs)
    made.run()
    assert untouched_fraction(made.outputs) == 0
    assert 0 <= oracle_error("masked_flash", problem, launches[-1], made.tensors) <= 1
    causal = replace(problem, mask="", window=0, causal=True)
    assert oracle_error("masked_flash", causal, launches[-1], made.tensors) > 1


def test_kernels_that_do_nothing_are_seen(held: Held) -> None:
    """Poison stays, and the oracle does not mistake it for an output."""
    launches = Point(schedule="flash2", problem=PROBLEM, config=runnable_config("flash2")).launches(H200)
    made, _ = prepare(launches, PROBLEM, CPU)
    poison(made.outputs)
    assert untouched_fraction(made.outputs) == 1
    assert not oracle_error("flash2", PROBLEM, launches[-1], made.tensors) <= 1


def test_inputs_are_the_same_each_time(held: Held) -> None:
    """Two processes, one that times and one that counts, run the same numbers."""
    launches = Point(schedule="unfused", problem=PROBLEM, config=runnable_config("unfused")).launches(H200)
    first, second = (prepare(launches, PROBLEM, CPU)[0] for _ in range(2))
    for name in ("Q", "K", "V", "MASK"):
        assert torch.equal(first.tensors[name], second.tensors[name])
