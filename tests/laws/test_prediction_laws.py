"""Laws of predictions: figures that no device can keep are no answer, of a schedule or of anyone's kernel."""

import json
import lzma
from dataclasses import replace
from math import prod

import numpy as np
import pytest
from support.lab import DATA
from tilesight.simulator.device.device import Device, load_device
from tilesight.simulator.launch.program import Launch
from tilesight.simulator.launch.walk import tally
from tilesight.simulator.prediction.compulsory import compulsory_read_bytes
from tilesight.simulator.prediction.laws import ROUNDING, laws_of
from tilesight.simulator.refusal import BrokenLaw
from tilesight.simulator.resolve import Resolved, resolve
from tilesight.simulator.simulate import predict
from tilesight.simulator.sm import choose

from tilesight import AttentionProblem, Config, Prediction, compare, explore, simulate
from tilesight.cli.main import main

PROBLEM = AttentionProblem(batch=1, heads=16, seqlen_q=1024, seqlen_k=1024, head_dim=64)
CONFIG = Config(block_m=128, block_n=64, num_warps=4, num_stages=2)
H200 = load_device("h200")


def predicted() -> tuple[Launch, Prediction]:
    resolved = resolve(PROBLEM, "flash2", CONFIG, H200)
    assert isinstance(resolved, Resolved)
    return resolved.launches[0], predict(resolved, H200)


@pytest.fixture
def half_the_matmuls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Costs of steps in which the loop counts once, as a library of wrong kernels once said."""
    costs_of = choose.costs_of

    def wrong(*given: object) -> choose.LaunchCosts:
        costs = costs_of(*given)  # type: ignore[arg-type]
        nothing = {
            name: replace(cost, pipe_cycles=tuple(cycles / 16 for cycles in cost.pipe_cycles), critical_path_cycles=1.0)
            for name, cost in costs.steps.items()
        }
        return replace(costs, steps=nothing)

    monkeypatch.setattr("tilesight.simulator.simulate_launches.costs_of", wrong)


@pytest.mark.parametrize(
    ("law", "wrong"),
    [
        ("useful FLOP are part of those executed", {"matmul_flop": 1 << 60}),
        ("matmuls take their time on the tensor cores", {"cycles": 1.1e4}),
        ("exponentials take their time on the MUFU pipes", {"exp_count": 1 << 40}),
        ("loads pass the ports of the SMs", {"smem_fill_bytes": 1 << 36}),
        ("loads pass L2", {"l2_read_bytes": 1 << 36}),
        ("reads and writes pass device memory", {"hbm_write_bytes": 1 << 32}),
        ("what is read first comes from device memory", {"hbm_read_bytes": 1 << 20}),
    ],
)
def test_a_figure_beyond_the_device_breaks_its_law(law: str, wrong: dict[str, float]) -> None:
    """And the same launch as it was predicted keeps it."""
    launch, prediction = predicted()
    right = prediction.launches[0]
    figures = replace(right.traffic, **wrong)  # type: ignore[arg-type]
    executions = tally(launch.program).executions

    def broken(traffic: object) -> list[str]:
        doctored = replace(right, traffic=traffic)  # type: ignore[arg-type]
        return [item.name for item in laws_of(launch, executions, doctored, H200, cold=True) if item.broken]

    assert broken(right.traffic) == []
    assert law in broken(figures)


@pytest.mark.parametrize("pipe", ["tensor", "mufu", "fma", "issue", "smem"])
def test_a_pipe_has_one_user_at_a_time(pipe: str) -> None:
    """Busy for more cycles than there are."""
    launch, prediction = predicted()
    doctored = replace(prediction.launches[0], utilisation=prediction.launches[0].utilisation | {pipe: 1.2})
    laws = laws_of(launch, tally(launch.program).executions, doctored, H200, cold=True)
    assert f"the {pipe} pipes have one user at a time" in [law.name for law in laws if law.broken]


def test_few_ctas_have_few_sms(half_the_matmuls: None) -> None:
    """One CTA cannot use 132 SMs, even where all of them could do its work in that time."""
    lone = replace(PROBLEM, heads=1, kv_heads=1, seqlen_q=128, seqlen_k=8192)
    with pytest.raises(BrokenLaw, match=r"^internal: kernel flash2 breaks a law of NVIDIA H200"):
        simulate(lone, config=CONFIG)


def test_a_schedule_is_refused_in_one_line_that_says_what_to_report(
    half_the_matmuls: None, capsys: pytest.CaptureFixture[str]
) -> None:
    """Kernel, configuration, device, version, law, figure and limit; no number on stdout, exit code 1."""
    assert main(["simulate", "--seqlen", "1024", "--block-m", "128", "--block-n", "64", "--json"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    (line,) = err.splitlines()
    for part in ("internal: kernel flash2", "NVIDIA H200", "SM cycles are more than", "block_m = 128", "tilesight 0."):
        assert part in line


def test_explore_and_compare_rank_nothing_that_breaks_a_law(half_the_matmuls: None) -> None:
    """The configuration says why it is out, and a note how many are."""
    exploration = explore(PROBLEM, schedule="flash2", block_m=128, block_n=(64, 128), num_warps=4, num_stages=2)
    assert exploration.ranked == ()
    assert all(item.kind == "impossible" for item in exploration.candidates)
    assert all(item.reason.startswith("internal: ") for item in exploration.candidates)
    assert any(note.startswith("2 of 2 configurations left out: internal: ") for note in exploration.notes)
    scaling = compare(PROBLEM, [1024], schedule="flash2", block_m=128, block_n=64, num_warps=4, num_stages=2)
    assert [point.reason[:9] for point in scaling.points] == ["internal:"]


def test_compulsory_bytes_are_those_of_q_k_and_v() -> None:
    """Each tile once, however often it is read; of ragged lengths all but the last tile, which another step reads."""
    for problem, least in ((PROBLEM, 1.0), (replace(PROBLEM, seqlen_q=1000, seqlen_k=777), 0.98)):
        resolved = resolve(problem, "flash2", CONFIG, H200)
        assert isinstance(resolved, Resolved)
        compulsory = problem.compulsory.read_bytes
        assert least * compulsory <= compulsory_read_bytes(resolved.launches[0]) <= compulsory


def test_tiles_that_begin_before_their_tensor_compel_no_reads() -> None:
    """As of a trace of ragged TMA loads, whose boxes are clipped: fewer bytes than all are a lower bound still."""
    resolved = resolve(PROBLEM, "flash2", CONFIG, H200)
    assert isinstance(resolved, Resolved)
    (launch,) = resolved.launches
    items = launch.program.items
    moved = replace(launch.program, items=lambda indices: items(indices) - np.int64(1 << 20))
    assert compulsory_read_bytes(replace(launch, program=moved)) == 0


@pytest.mark.parametrize("name", ["h200", "a100-sxm-80gb", "rtx-4090", "rtx-5090", "b200", "l40s"])
@pytest.mark.parametrize("schedule", ["flash1", "flash2", "naive"])
def test_usual_predictions_keep_every_law(name: str, schedule: str) -> None:
    """Else people would be refused for nothing."""
    device: Device = load_device(name)
    for causal in (False, True):
        assert simulate(replace(PROBLEM, causal=causal), schedule=schedule, device=device).time_s > 0.0


def test_recorded_predictions_of_public_kernels_beat_no_device() -> None:
    """Issue slots, ports of the SMs in use and device memory, of every launch that was predicted before it was run."""
    seen = 0
    for file in sorted(DATA.glob("public-predicted*.ndjson.xz")):
        for row in map(json.loads, lzma.decompress(file.read_bytes()).splitlines()):
            if row.get("refused") or "cold" not in row:
                continue
            device = load_device(row.get("device", "h100" if "h100" in file.name else "h200"))
            sms = min(device.sms, prod(row["grid"]))
            for figures in (row["cold"], row["warm"]):
                cycles, moved = figures["cycles"], figures["hbm_read_bytes"] + figures["hbm_write_bytes"]
                assert row["instructions"] <= (1.0 + ROUNDING) * device.issue_per_cycle * sms * cycles, row["name"]
                assert figures["smem_fill_bytes"] <= (1.0 + ROUNDING) * device.sm_fill_bytes_per_cycle * sms * cycles
                assert moved <= (1.0 + ROUNDING) * device.hbm_peak_bytes_per_s * figures["time_s"], row["name"]
                seen += 1
    assert seen > 1000
