"""Each real kernel touches what its schedule's `TileProgram` says: tensors, bytes, order per CTA, whole grid."""

from collections.abc import Callable
from dataclasses import replace
from types import MappingProxyType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from schedules.contract import edit_steps
from support.interpreter import Trace, example_tensors, record
from support.strategies import TOY, configs, devices, dtypes_of, long_row_problems, problems, read_by, toys, windows_of
from tilesight.kernels.launch.launch import TritonKernel
from tilesight.kernels.launch.registry import find_twin, twinned
from tilesight.simulator.launch.program import Launch, Loop, Step
from tilesight.simulator.launch.walk import accesses
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.schedules.config import Config
from tilesight.simulator.schedules.contract import Schedule
from tilesight.simulator.schedules.online_softmax import SOFTMAX_VARIANT
from tilesight.simulator.schedules.registry import find_schedule

PROBLEM = AttentionProblem(
    batch=1, heads=4, kv_heads=2, seqlen_q=70, seqlen_k=150, head_dim=24, dtype="fp16", causal=True
)


def described(launch: Launch) -> Trace:
    """What the program says: per CTA, the accesses of its items in order."""
    program = launch.program
    return tuple(
        tuple(access for item in range(cta, program.item_count, launch.cta_count) for access in accesses(program, item))
        for cta in range(launch.cta_count)
    )


def runnable(schedule: Schedule, config: Config) -> Config:
    """The configuration with warps split as Triton splits them."""
    return config.but(warp_split="q") if "warp_split" in schedule.options else config


def assert_pipeline_equal(schedule: Schedule, problem: AttentionProblem, launches: tuple[Launch, ...]) -> None:
    tensors = example_tensors(launches, problem)
    for launch in launches:
        trace = record(find_twin(launch), launch, tensors)
        expected = described(launch)
        assert len(trace) == len(expected)
        for cta, (real, said) in enumerate(zip(trace, expected, strict=True)):
            assert real == said, f"{launch.name}, CTA {cta}"


@pytest.mark.parametrize("name", [name for name in twinned() if not find_schedule(name).outlined])
@settings(max_examples=15)
@given(data=st.data())
def test_recorded_accesses_equal_the_program(name: str, data: st.DataObject) -> None:
    """Over drawn problems, configurations and device sizes, nothing more, nothing less, nothing in another order."""
    schedule = find_schedule(name)
    # The interpreter's bf16 is not needed here: which bytes are touched does not depend on the 16-bit type.
    config = runnable(schedule, data.draw(configs(schedule)))
    drawn = problems(dtypes=dtypes_of(config, among=("fp16", "fp32")), windows=windows_of(schedule))
    problem = read_by(schedule, data.draw(drawn))
    assert_pipeline_equal(schedule, problem, schedule.launches(problem, config, data.draw(devices(schedule))))


@pytest.mark.parametrize("name", ["naive", "unfused"])
@settings(max_examples=3)
@given(problem=long_row_problems())
def test_rows_swept_twice_are_recorded_twice(name: str, problem: AttentionProblem) -> None:
    """More keys than a CTA holds of a row: the softmax goes over the blocks of a row two times."""
    schedule = find_schedule(name)
    problem = replace(problem, dtype="fp16")
    assert_pipeline_equal(schedule, problem, schedule.launches(problem, schedule.default, TOY))


@pytest.mark.parametrize("variant", SOFTMAX_VARIANT.values)
@pytest.mark.parametrize("block_m", [1, 16])
def test_every_pass_of_a_softmax_is_recorded(variant: str, block_m: int) -> None:
    """Each variant for certain, over single rows and tall strips, ragged both ways."""
    schedule = find_schedule("online_softmax")
    config = schedule.config(block_m=block_m, block_n=32, softmax_variant=variant)
    problem = replace(PROBLEM, heads=2, seqlen_q=19, causal=False)
    assert_pipeline_equal(schedule, problem, schedule.launches(problem, config, TOY))


def _launched(name: str) -> Launch:
    (launch,) = find_schedule(name).launches(PROBLEM, Config(block_m=32, block_n=32), toys(name)[0])
    return launch


def _changed(twin: TritonKernel, **arguments: int | str) -> TritonKernel:
    """The twin with other arguments, and descriptors that go with them."""
    columns = {name: block[1] for name, block in twin.blocks.items()}
    given = {**twin.arguments, **arguments}
    blocks = {name: (int(given["block_m" if name == "Q" else "block_n"]), cols) for name, cols in columns.items()}
    return TritonKernel(twin.function, MappingProxyType(given), MappingProxyType(blocks))


def _twice(step: Step) -> Step:
    return replace(step, loads=(*step.loads, step.loads[0])) if step.name == "inner" else step


def _short_loop(launch: Launch) -> Launch:
    body = tuple(
        replace(node, first="step") if isinstance(node, Loop) and node.body[0].name == "inner" else node  # type: ignore[union-attr]
        for node in launch.program.body
    )
    return replace(launch, program=replace(launch.program, body=body))


PLANTED_IN_THE_KERNEL: dict[str, dict[str, int | str]] = {
    "blocks of another size": {"block_n": 16},
    "the mask forgotten": {"causal": False},
    "swapped grid axes": {"cta_order": "head-fast"},
    "keys walked backwards": {"kv_order": "sawtooth", "guarded": True},
    "another group of heads": {"head_group": 4},
    "one item too few": {"items": 5, "persistent": True},
}
PLANTED_IN_THE_PROGRAM: dict[str, Callable[[Launch], Launch]] = {
    "a tile loaded twice": lambda launch: edit_steps(launch, _twice),
    "a block range that starts one tile late": _short_loop,
    "loads in another order": lambda launch: edit_steps(launch, lambda step: replace(step, loads=step.loads[::-1])),
    "a store forgotten": lambda launch: edit_steps(launch, lambda step: replace(step, stores=step.stores[:1])),
}


@pytest.mark.parametrize("name", ["flash2", "flash2_tma"])
@pytest.mark.parametrize("arguments", PLANTED_IN_THE_KERNEL.values(), ids=PLANTED_IN_THE_KERNEL)
def test_a_kernel_that_does_something_else_is_caught(arguments: dict[str, int | str], name: str) -> None:
    """One argument of the kernel changed, the program unchanged: the traces differ."""
    launch = _launched(name)
    twin = find_twin(launch)
    assert record(twin, launch, example_tensors((launch,), PROBLEM)) == described(launch)
    assert record(_changed(twin, **arguments), launch, example_tensors((launch,), PROBLEM)) != described(launch)


@pytest.mark.parametrize("name", ["flash2", "flash2_tma"])
@pytest.mark.parametrize("plant", PLANTED_IN_THE_PROGRAM.values(), ids=PLANTED_IN_THE_PROGRAM)
def test_a_program_that_says_something_else_is_caught(plant: Callable[[Launch], Launch], name: str) -> None:
    """The kernel unchanged, the program edited: the traces differ."""
    launch = _launched(name)
    trace = record(find_twin(launch), launch, example_tensors((launch,), PROBLEM))
    assert trace == described(launch)
    assert trace != described(plant(launch))
