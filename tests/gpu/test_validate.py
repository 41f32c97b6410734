"""`validate` on a GPU: every schedule measured without a doubt, memory as predicted, failures survived, one command."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from tilesight.kernels.launch.availability import missing_gpu
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.schedules.registry import find_schedule
from tilesight.simulator.simulate import peak_memory_bytes
from tilesight.validate.measurement import Lost, Measurement
from tilesight.validate.points.point import Point, able, runnable_config, runnable_schedules
from tilesight.validate.points.sets import default_points

from tilesight.cli.main import main

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(missing_gpu() is not None, reason=str(missing_gpu()))]
if missing_gpu() is None:
    import torch
    from tilesight.kernels.compile.compile import compile_many
    from tilesight.kernels.compile.outcomes import Compiled
    from tilesight.kernels.launch.launch import device_of
    from tilesight.simulator.device.device import catalogue, device_of_product, load_device
    from tilesight.validate.compare.campaign import plan
    from tilesight.validate.measure.session import PointSession, Task

    DEVICE = device_of(torch.empty(0, device="cuda"))
    NAME = device_of_product(torch.cuda.get_device_name())
    assert NAME in catalogue()
    assert load_device(str(NAME)) == DEVICE

PROBLEM = AttentionProblem(batch=2, heads=8, kv_heads=4, seqlen_q=1024, seqlen_k=1024, head_dim=64, causal=True)
SCHEDULES = [name for name in runnable_schedules() if find_schedule(name).problem is AttentionProblem]


def tasks_of(points: list[Point]) -> "list[Task]":
    tasks, rows = plan(
        points,
        DEVICE,
        lambda wanted: [
            outcome.resources if isinstance(outcome, Compiled) else outcome.reason
            for outcome in compile_many(wanted, DEVICE)
        ],
    )
    assert rows == []
    return tasks


def session() -> "PointSession":
    return PointSession("0", DEVICE, {"name": str(NAME), "set": []}, "not asked for")


def test_every_schedule_is_measured_without_a_doubt() -> None:
    """Right outputs, the compiled kernel, a quiet enough time, a clock; memory within one percent."""
    names, _ = able(SCHEDULES, DEVICE)
    points = [
        Point(schedule=name, problem=problem, config=runnable_config(name), l2=l2)
        for name in names
        for problem in (PROBLEM, replace(PROBLEM, causal=False, seqlen_q=1000, dtype="bf16"))
        for l2 in ("cold", "warm")
        if find_schedule(name).why_not(problem) is None
    ]
    # Schedules of decoding and of chunks take neither: the first point of their short list.
    points += [default_points([name])[0] for name in names if all(point.schedule != name for point in points)]
    assert {point.schedule for point in points} == set(names)
    gpu_session = session()
    try:
        rows = gpu_session.rows(tasks_of(points))
    finally:
        gpu_session.close()
    for row in rows:
        outcome = row.outcome
        assert isinstance(outcome, Measurement), outcome
        assert outcome.doubts == (), row.point.key
        assert 0 < outcome.oracle_error <= 1
        assert outcome.timing
        assert outcome.timing.clock_hz > 0
        peak_bytes = peak_memory_bytes(row.point.problem, row.point.schedule, row.point.config, DEVICE)
        assert outcome.peak_memory_bytes == pytest.approx(peak_bytes, rel=0.01), row.point.key


def test_what_does_not_fit_costs_its_point_only() -> None:
    """Out of memory is a row with its reason, and the next point is measured."""
    large = replace(PROBLEM, batch=64, heads=16, seqlen_q=1 << 15, seqlen_k=1 << 15)
    points = [Point(schedule="naive", problem=problem, config=runnable_config("naive")) for problem in (large, PROBLEM)]
    gpu_session = session()
    try:
        lost, kept = gpu_session.rows(tasks_of(points))
    finally:
        gpu_session.close()
    assert isinstance(lost.outcome, Lost)
    assert lost.outcome.reason.startswith("out of memory")
    assert isinstance(kept.outcome, Measurement)
    assert kept.outcome.doubts == ()


def test_the_command_runs_and_continues(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One problem, all schedules, with counters where the machine allows them; a second call measures nothing."""
    results = tmp_path / "results.jsonl"
    settings = [f"--problem={key}={value}" for key, value in {"batch": 2, "heads": 8, "seqlen": 1024}.items()]
    arguments = ["validate", *settings, "--results", str(results), "--json"]
    assert main(arguments) == 0
    first = json.loads(capsys.readouterr().out)
    size = results.stat().st_size
    assert main(arguments) == 0
    assert json.loads(capsys.readouterr().out)["points"] == first["points"]
    assert results.stat().st_size == size
    assert all(point["objections"] == [] for point in first["points"])
    assert {"time_s", "cycles", "peak_memory_bytes"} <= set(first["points"][0]["compared"])
