"""What Python and the command line take where a user names little: the same configuration, and so the same figures."""

import json
from typing import Any

import pytest
from tilesight.simulator.device.device import load_device
from tilesight.simulator.explore.explore import explore
from tilesight.simulator.launch.program import Launch, Resources
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.refusal import DoesNotFit, Refusal
from tilesight.simulator.resolve import Resolved, Sources, asked_config, resolve
from tilesight.simulator.schedules.config import Config
from tilesight.simulator.schedules.registry import find_schedule, written_schedules
from tilesight.simulator.simulate import simulate

from tilesight.cli.main import main

every_schedule = pytest.mark.parametrize("schedule", written_schedules())
H200 = load_device("h200")
SMALL = AttentionProblem(batch=1, heads=2, seqlen_q=256, seqlen_k=256, head_dim=64)


@pytest.fixture(autouse=True)
def _no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where torch and triton are not installed."""
    monkeypatch.setattr("tilesight.cli.compiled.why_not", lambda: "not here")


def _problem(head_dim: int) -> AttentionProblem:
    return AttentionProblem(batch=1, heads=2, seqlen_q=256, seqlen_k=256, head_dim=head_dim)


def _commanded(capsys: pytest.CaptureFixture[str], schedule: str, head_dim: int, *options: str) -> dict[str, Any]:
    """What `simulate --json` says."""
    shape = ["--batch", "1", "--heads", "2", "--seqlen", "256"]
    if find_schedule(schedule).problem is AttentionProblem:
        shape += ["--head-dim", str(head_dim)]
    code = main(["simulate", "--schedule", schedule, *shape, *options, "--json"])
    printed = capsys.readouterr()
    assert code == 0, printed.err
    answer: dict[str, Any] = json.loads(printed.out)
    return answer


def _same(commanded: dict[str, Any], schedule: str, head_dim: int, **asked: Any) -> None:
    """All figures are equal, and every remark of Python is one of the command, which adds who compiled."""
    answer = json.loads(json.dumps(simulate(_problem(head_dim), schedule=schedule, **asked).to_dict()))
    notes, others = answer.pop("notes"), commanded.pop("notes")
    if find_schedule(schedule).problem is not AttentionProblem:
        del answer["problem"], commanded["problem"]
    assert answer == commanded
    assert set(notes) <= set(others)


@every_schedule
@pytest.mark.parametrize("head_dim", [64, 256])
@pytest.mark.parametrize("device", ["h200", "rtx-4090"])
def test_defaults_are_those_of_the_command(
    schedule: str, head_dim: int, device: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """With no `Config` and with an empty one, also where the default shrinks to fit."""
    try:
        simulate(_problem(head_dim), schedule=schedule, device=device)
    except ValueError as error:
        assert "TMA" in str(error)
        return
    commanded = _commanded(capsys, schedule, head_dim, "--device", device)
    _same(dict(commanded), schedule, head_dim, device=device)
    _same(dict(commanded), schedule, head_dim, device=device, config=Config())


def test_the_cases_above_hold_defaults_that_shrink() -> None:
    """Else they would show nothing about those."""
    asked = find_schedule("flash2").default
    assert simulate(_problem(256), device="rtx-4090").config != asked
    assert simulate(_problem(64), device="h200").config == asked


@every_schedule
@pytest.mark.parametrize(
    ("options", "asked"),
    [
        (("--num-warps", "8"), {"config": Config(num_warps=8)}),
        (("--block-m", "16", "--num-warps", "1"), {"config": Config(block_m=16, num_warps=1)}),
        (("--cost", "tiles"), {"cost": "tiles"}),
        (("--registers", "64"), {"registers": 64}),
    ],
)
def test_what_is_named_is_named_alike(
    schedule: str, options: tuple[str, ...], asked: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """The rest is the default, in Python as on the command line."""
    _same(_commanded(capsys, schedule, 64, *options), schedule, 64, **asked)


def test_what_is_named_stays_and_the_rest_shrinks(capsys: pytest.CaptureFixture[str]) -> None:
    """With a remark; and where nothing smaller fits, the text says what is too much."""
    problem = _problem(256)
    seen = simulate(problem, config=Config(block_m=64), device="rtx-4090")
    assert seen.config.block_m == 64
    assert seen.config.num_stages < find_schedule("flash2").default.num_stages
    assert any(note.startswith("num_stages ") and "the default" in note for note in seen.notes)
    _same(
        _commanded(capsys, "flash2", 256, "--block-m", "64", "--device", "rtx-4090"),
        "flash2",
        256,
        config=Config(block_m=64),
        device="rtx-4090",
    )
    with pytest.raises(DoesNotFit, match=r"^shared memory: a CTA needs"):
        simulate(problem, config=Config(block_m=256), device="rtx-4090")


def test_warps_share_rows_where_cycles_come_of_code() -> None:
    """Triton's compiler knows nothing else; estimates follow the paper; what is named stays."""
    flash1 = find_schedule("flash1")
    assert asked_config(SMALL, flash1, Config(), H200, "compiled").warp_split == "q"
    assert asked_config(SMALL, flash1, Config(), H200, "tiles").warp_split == "k"
    assert asked_config(SMALL, flash1, Config(warp_split="k"), H200, "compiled").warp_split == "k"
    kinds = {
        cost: {
            candidate.config.warp_split
            for candidate in explore(SMALL, schedule="flash1", cost=cost, block_m=64).candidates
        }
        for cost in ("compiled", "tiles")
    }
    assert kinds == {"compiled": {"q"}, "tiles": {"k"}}


def test_an_option_that_the_schedule_does_not_take_is_refused() -> None:
    """Nothing given is ignored in silence."""
    with pytest.raises(ValueError, match="cta_order: schedule naive does not take it"):
        simulate(SMALL, schedule="naive", config=Config(cta_order="head-fast"))


def test_whoever_compiles_is_asked_first() -> None:
    """Its resources are used; None leaves a launch to the library; a reason is why it does not fit."""
    asked: list[tuple[Launch, ...]] = []

    def resources_of(answer: Any) -> Any:
        return lambda pipelines: [asked.extend(pipelines) or answer for _ in pipelines]

    compiled = Resources(registers_per_thread=99, smem_bytes_per_cta=4096, origin="compiled")
    seen = simulate(SMALL, resources_of=resources_of((compiled,)))
    assert (seen.launches[0].registers_per_thread, seen.launches[0].smem_bytes_per_cta) == (99, 4096)
    assert [launch.name for (launch,) in asked] == ["flash2"]
    assert simulate(SMALL, resources_of=resources_of(None)) == simulate(SMALL)
    whole = find_schedule("flash2").default
    with pytest.raises(DoesNotFit, match="refused by the compiler"):
        simulate(SMALL, config=whole, resources_of=resources_of(Refusal("does not fit", "refused by the compiler")))


def test_the_first_that_fits_is_compiled_and_no_more() -> None:
    """A compiler takes seconds: what does not fit by its estimate is not compiled after a first refusal."""
    compiled = []

    def resources_of(pipelines: Any) -> list[tuple[Resources, ...] | Refusal]:
        compiled.extend(pipelines)
        refused = Refusal("does not fit", "shared memory: too much")
        return [refused if len(compiled) == 1 else tuple(launch.resources for launch in pipelines[0])]

    problem = _problem(256)
    resolved = resolve(problem, "flash2", Config(), H200, Sources(resources_of=resources_of, cost="tiles"))
    assert isinstance(resolved, Resolved)
    assert len(compiled) == 2
    assert resolved.launches == compiled[1]
    assert resolved.config != find_schedule("flash2").default
    assert resolved.shrunk.endswith("the default: shared memory: too much")
