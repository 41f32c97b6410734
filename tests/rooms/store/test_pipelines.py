"""Predictions of schedules that are kept: the same to the last digit, asked for by all that they depend on."""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from laws.cases import Case, cases
from support.strategies import TOY
from tilesight.simulator import simulate_launches
from tilesight.simulator.arguments import Settings
from tilesight.simulator.device.device import Device, load_device
from tilesight.simulator.device.what_if import SET
from tilesight.simulator.explore import explore as exploring
from tilesight.simulator.explore.explore import Exploration, explore
from tilesight.simulator.explore.lengths import compare
from tilesight.simulator.launch.program import Code
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.problems.softmax import SoftmaxProblem
from tilesight.simulator.refusal import BrokenLaw
from tilesight.simulator.resolve import Resolved, Sources, resolve
from tilesight.simulator.schedules.config import Config
from tilesight.simulator.schedules.registry import find_schedule
from tilesight.simulator.simulate import is_known, predict, simulate
from tilesight.simulator.store import keys, pipelines
from tilesight.simulator.store.keys import pipeline_key
from tilesight.simulator.store.store import VARIABLE

H200 = load_device("h200")
PROBLEM = AttentionProblem(batch=1, heads=4, seqlen_q=256, seqlen_k=256, head_dim=64)
CONFIG = Config(block_m=64, block_n=64, num_warps=4, num_stages=2)
SPACE: dict[str, Any] = {"num_warps": 4, "num_stages": (1, 4), "block_m": (64, 256), "block_n": (64, 256)}
"""Eight configurations of which some do not fit."""


def resolved(device: Device = H200, problem: Any = PROBLEM, schedule: str = "flash2", **options: Any) -> Resolved:
    """What runs."""
    outcome = resolve(problem, schedule, options.pop("config", CONFIG), device, Sources(**options))
    assert isinstance(outcome, Resolved)
    return outcome


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of predictions, empty."""
    path = tmp_path / "predictions"
    monkeypatch.setenv(VARIABLE, str(path))
    return path


@pytest.fixture
def simulated(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What was simulated since, in order."""
    seen: list[Any] = []
    simulate_them: Callable[..., Any] = simulate_launches.simulate_launches

    def counted(launches: Any, *arguments: Any, **options: Any) -> Any:
        seen.append(launches)
        return simulate_them(launches, *arguments, **options)

    monkeypatch.setattr(simulate_launches, "simulate_launches", counted)
    return seen


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=25)
@given(case=cases(), l2=st.sampled_from(["cold", "warm"]), overhead=st.sampled_from(["stream", "graph"]))
def test_what_is_found_is_what_was_made(kept: Path, simulated: list[Any], case: Case, l2: str, overhead: str) -> None:
    """Every digit, type and note of it, of all schedules on toy GPUs."""
    asked: dict[str, Any] = {"config": case.config, "device": case.device, "l2": l2, "overhead": overhead}
    first = simulate(case.problem, schedule=case.schedule, **asked)
    simulated.clear()
    again = simulate(case.problem, schedule=case.schedule, **asked)
    assert simulated == [] and again == first and as_written(again) == as_written(first)


def as_written(prediction: Any) -> str:
    """Each field with its type: 1 is not 1.0, nor numpy's."""
    return repr([[launch.to_dict(), launch.traffic] for launch in prediction.launches]) + repr(prediction.to_dict())


@pytest.mark.parametrize(
    ("problem", "schedule", "device"),
    [
        (PROBLEM, "naive", "h100-sxm"),
        (replace(PROBLEM, causal=True, seqlen_q=300), "flash1", "a100-sxm-80gb"),
        (replace(PROBLEM, head_dim=256), "flash2", "rtx-4090"),
        (replace(PROBLEM, seqlen_q=4096, seqlen_k=4096), "unfused", "b200"),
        (SoftmaxProblem(batch=4, heads=8, seqlen_q=512, seqlen_k=1000), "online_softmax", "h200"),
    ],
)
def test_notes_and_costs_come_back(kept: Path, simulated: list[Any], problem: Any, schedule: str, device: str) -> None:
    """A default made smaller, code that the library lacks, ragged tiles: all that is said of a prediction."""
    first, again = (simulate(problem, schedule=schedule, device=device) for _ in range(2))
    assert len(simulated) == 1 and again == first and as_written(again) == as_written(first)


def test_the_same_table_is_simulated_once(kept: Path, simulated: list[Any]) -> None:
    """With those that do not fit and why, and the baseline; a part of it, or with more beside it, asks for the rest."""
    first = explore(PROBLEM, **SPACE)
    fitting = len(first.ranked)
    assert 0 < fitting < len(first.candidates) == 8 and len(tables(simulated)) == fitting < len(simulated)
    simulated.clear()
    assert written(explore(PROBLEM, **SPACE)) == written(explore(PROBLEM, **SPACE, workers=1)) == written(first)
    explore(PROBLEM, **SPACE | {"block_n": 64})
    assert simulated == []
    wider = explore(PROBLEM, **SPACE | {"block_n": (64, 128, 256)})
    assert len(simulated) == len(wider.ranked) - fitting > 0
    simulated.clear()
    simulate(PROBLEM, config=first.ranked[0].config)
    assert simulated == []


def tables(simulated: list[Any]) -> list[Any]:
    """What was simulated of the table, without the baseline beside it."""
    return [launches for launches in simulated if launches[0].name == "flash2"]


def written(exploration: Exploration) -> str:
    """All that it says."""
    return repr(exploration.to_dict())


def test_lengths_are_simulated_once(kept: Path, simulated: list[Any]) -> None:
    """At each of them, and where all configurations are tried at a short one."""
    options: dict[str, Any] = {"schedule": ("flash2", "naive"), "block_m": 64, "num_warps": 4}
    first = compare(PROBLEM, [256, 512], **options)
    count = len(simulated)
    assert compare(PROBLEM, [256, 512], **options) == first and len(simulated) == count


CODE = Code(sass="a", constants={0: 1}, lines=[(0, "f.py", 1)])
OTHERS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    *((name, {}, {name: value}) for name, value in
      {"l2": "warm", "resolution": "line", "steady_state": False, "overhead": "graph"}.items()),
    ("problem", {"problem": replace(PROBLEM, causal=True)}, {}),
    ("dtype", {"problem": replace(PROBLEM, dtype="bf16")}, {}),
    ("schedule", {"schedule": "flash2_tma"}, {}),
    ("configuration", {"config": CONFIG.but(kv_order="sawtooth")}, {}),
    ("cost", {"cost": "tiles"}, {}),
    ("registers", {"registers": 100}, {}),
    ("smem_bytes", {"smem_bytes": 40_000}, {}),
]  # fmt: skip


@pytest.mark.parametrize(("_", "options", "settings"), OTHERS, ids=[name for name, _, _ in OTHERS])
def test_another_question_has_another_name(_: str, options: dict[str, Any], settings: dict[str, Any]) -> None:
    """Whatever differs; the same question has the same name."""
    usual = pipeline_key(resolved(), H200, Settings())
    assert pipeline_key(resolved(), load_device("h200"), Settings()) == usual
    assert pipeline_key(resolved(**options), H200, Settings(**settings)) != usual


def test_every_number_of_a_device_counts() -> None:
    """And of its SMs; and where it comes from, as a what-if may count for more than the same number measured."""
    runs = resolved(TOY, cost="tiles")
    names = {pipeline_key(runs, device, Settings()) for device in devices()}
    assert len(names) == len(devices())


def devices() -> list[Device]:
    """The toy GPU, and with each number changed, as far as that makes one."""
    every = [TOY, replace(TOY, provenance={"sms": SET}), replace(TOY, sm=replace(TOY.sm, provenance={}))]
    for owner in (TOY, TOY.sm):
        for name in owner.__slots__:
            value = getattr(owner, name)
            if not isinstance(value, int | float):
                continue
            for factor in (2, 0.5):
                try:
                    changed = replace(owner, **{name: type(value)(value * factor)})
                except ValueError:
                    continue
                if getattr(changed, name) != value:
                    every.append(changed if isinstance(changed, Device) else replace(TOY, sm=changed))
                    break
    assert len(every) > 80
    return every


def test_code_and_kept_figures_count() -> None:
    """By content: that of the compiler, its constants and lines, and each array of the library."""
    usual = resolved()
    (launch,) = usual.launches
    figures = launch.resources.figures
    assert figures
    changed = [
        *(replace(launch.resources, figures=replace(figures, **{name: getattr(figures, name) + 1}))
          for name in ("conditions", "values", "slowdown_by_age")),
        replace(launch.resources, figures=None),
        *(replace(launch.resources, code=code, figures=None)
          for code in (CODE, replace(CODE, sass="b"), replace(CODE, constants={0: 2}), replace(CODE, lines=()))),
        replace(launch.resources, spilled_bytes_per_thread=8),
    ]  # fmt: skip
    every = [usual, *(replace(usual, launches=(replace(launch, resources=taken),)) for taken in changed)]
    assert len({pipeline_key(runs, H200, Settings()) for runs in every}) == len(every)


def test_what_launches_do_not_show_counts() -> None:
    """Where tiles lie and what work is for follow from the problem; a remark is part of the answer."""
    usual = resolved()
    changed: dict[str, Any] = {"problem": replace(PROBLEM, causal=True), "config": CONFIG.but(cta_order="m-fast")}
    changed |= {"schedule": find_schedule("flash1"), "cost": "tiles", "shrunk": "smaller", "uncompiled": "not kept"}
    every = [usual, *(replace(usual, **{name: value}) for name, value in changed.items())]
    assert len({pipeline_key(runs, H200, Settings()) for runs in every}) == len(every)


def test_another_version_predicts_anew(kept: Path, simulated: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """And the one before finds its own again."""
    for version, count in (("old", 1), ("new", 2), ("old", 2), ("new", 2)):
        monkeypatch.setattr(keys, "model", lambda version=version: version)
        simulate(PROBLEM, config=CONFIG)
        assert len(simulated) == count


def test_what_has_no_answer_is_asked_again(kept: Path, simulated: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """No time was left for it, or it broke a law."""
    late = explore(PROBLEM, **SPACE, each_limit_s=-1.0)
    assert late.ranked == () and any(item.is_unanswered for item in late.candidates)
    simulated.clear()
    whole = explore(PROBLEM, **SPACE)
    assert len(tables(simulated)) == len(whole.ranked)
    assert written(explore(PROBLEM, **SPACE, each_limit_s=-1.0)) == written(whole)  # what is known takes no time

    def broken(*_: object, **__: object) -> None:
        raise BrokenLaw("faster than light")

    runs = resolved(config=CONFIG.but(block_m=128))
    monkeypatch.setattr(simulate_launches, "simulate_launches", broken)
    assert exploring.tried(PROBLEM, exploring.TrialSettings(device=H200), trial_of(runs)).candidate.kind == "impossible"
    monkeypatch.undo()
    assert not is_known(runs, H200)


def trial_of(runs: Resolved) -> Any:
    """A configuration to try."""
    options = tuple(runs.schedule.options)
    return exploring.Trial(candidate=exploring.Candidate(schedule="flash2", config=runs.config, options=options))


def test_answers_are_written_together(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One transaction a second; and those under way are kept where the rest is stopped."""
    written: list[int] = []
    put_all = pipelines.Store.put_all
    monkeypatch.setattr(pipelines, "WRITE_EVERY_S", 1e9)
    monkeypatch.setattr(pipelines.Store, "put_all", lambda self, rows: (written.append(len(rows)), put_all(self, rows)))

    def tick(done: int, _: int) -> None:
        if done == 3:
            raise KeyboardInterrupt

    windowed = PROBLEM.but(window=128)  # naive attention cannot compute it, and is not simulated beside it
    with pytest.raises(KeyboardInterrupt):
        explore(windowed, **SPACE | {"block_n": 64}, workers=1, progress=tick)
    assert written == [3]
    monkeypatch.setattr(pipelines, "WRITE_EVERY_S", -1.0)
    explore(windowed, **SPACE, workers=1)
    assert len(written) > 2 and set(written[1:]) == {1}


def test_who_waits_is_told_before_the_first_that_is_not_known(kept: Path) -> None:
    """Once; not where all is known."""
    said: list[str] = []
    for _ in range(2):
        with pipelines.answers(lambda: said.append("compiling")):
            predict(resolved(), H200)
            predict(resolved(), H200, Settings(l2="warm"))
    assert said == ["compiling"]


def test_a_table_that_is_known_loads_no_compiled_loops(kept: Path) -> None:
    """Most of a second that only what is simulated needs; the table is the same."""
    asked = ["explore", "--batch", "1", "--heads", "4", "--seqlen", "256", "--num-warps", "4", "--num-stages", "1,4"]
    code = f"import sys; from tilesight.cli.main import main; main({asked}); print('numba' in sys.modules)"
    first, again = (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    )
    assert first.endswith("True\n") and again == first.removesuffix("True\n") + "False\n"
