"""Every kernel on a GPU: right at thousands of points, the same bits each time, the resources that were promised."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from tilesight.kernels.launch.availability import missing_gpu

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(missing_gpu() is not None, reason=str(missing_gpu()))]
if missing_gpu() is None:
    import torch
    from gpu.grid import Point, points, schedules
    from tilesight.kernels.compile.compile import compile_many
    from tilesight.kernels.compile.outcomes import Compiled
    from tilesight.kernels.launch.launch import allocate, device_of, run
    from tilesight.kernels.launch.registry import find_twin, roundings_of
    from tilesight.kernels.reference import FP8_SUM_EPS, Attention, attention, judge, visible_keys

    DEVICE = device_of(torch.empty(0, device="cuda"))
    PAIRS = [(name, dtype) for name in schedules() for dtype in ("fp16", "bf16", "fp32", "fp8")]
else:
    PAIRS = []

LEAST_POINTS = 5000
REPEATS = 200
RECORD = os.environ.get("TILESIGHT_GPU_RECORD")
"""Where what was found is written, one JSON line for each schedule and dtype."""
LSE_ULPS = 8
tested: list[int] = []


def inputs(point: "Point") -> dict[str, Any]:
    """Q, K, V of a point, fresh for each problem, and the mask that `unfused` reads."""
    return dict(_inputs(point.problem))


@cache
def _inputs(problem: Any) -> dict[str, Any]:
    torch.manual_seed(crc32(str(problem).encode()))
    launch_dtype = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16, "fp8": torch.float8_e4m3fn}
    made = {}
    for name, heads, rows in (
        ("Q", problem.heads, problem.seqlen_q),
        ("K", problem.kv_heads, problem.seqlen_k),
        ("V", problem.kv_heads, problem.seqlen_k),
    ):
        shape = (problem.batch, heads, rows, problem.head_dim)
        made[name] = torch.randn(shape, device="cuda").to(launch_dtype[problem.dtype])
    return made


@cache
def _truths(problem: Any, roundings: int) -> "tuple[Attention, Attention]":
    given = _inputs(problem)
    q, k, v = given["Q"], given["K"], given["V"]
    mask = {"causal": problem.causal, "window": problem.window}
    truth = attention(q, k, v, **mask)
    tf32 = problem.dtype == "fp32"
    return truth, attention(q, k, v, **mask, working=True, tf32=tf32, score_roundings=roundings)


def launched(point: "Point") -> tuple[dict[str, Any], list[Any]]:
    """Run a point's kernels on poisoned memory. Returns: its tensors by name, and what Triton ran for each launch."""
    tensors, kernels = inputs(point), []
    for launch in point.launches:
        for tensor in launch.program.tensors:
            if tensor.name not in tensors:
                memory = allocate(tensor, torch.device("cuda"))
                tensors[tensor.name] = memory.fill_(float("nan") if memory.is_floating_point() else 1)
                if tensor.name == "MASK":
                    rows, keys = point.problem.seqlen_q, point.problem.seqlen_k
                    memory[..., :keys] = visible_keys(point.problem.whole_mask, rows, keys, memory.device)
        kernels.append(run(find_twin(launch), launch, tensors))
    return tensors, kernels


def verdict(point: "Point", tensors: dict[str, Any]) -> tuple[bool, float]:
    """Whether O, and LSE where there is one, are right, and the largest error in units of what is allowed."""
    roundings = roundings_of(point.schedule).scores
    truth, working = _truths(point.problem, roundings)
    fp8 = point.problem.dtype == "fp8"
    eps = FP8_SUM_EPS if fp8 else torch.finfo(tensors["Q"].dtype if roundings else torch.float32).eps
    many = 1 if point.schedule != "flash1" else -(-point.problem.seqlen_k // point.config.block_n)
    judged = [
        judge(
            tensors["O"].view(truth.o.shape),
            truth.o,
            working.o,
            ulps=many,
            largest_score=truth.largest_score,
            score_eps=eps,
        )
    ]
    if "LSE" in tensors:
        floor = truth.largest_score * FP8_SUM_EPS if fp8 else None
        judged.append(judge(tensors["LSE"].view(truth.lse.shape), truth.lse, working.lse, ulps=LSE_ULPS, floor=floor))
    return all(judgement.right for judgement in judged), max(judgement.error for judgement in judged)


def promised(point: "Point", outcomes: "list[Any]", kernels: list[Any]) -> Iterator[str]:
    """Where what ran is not what was compiled ahead of time: registers, spills, shared memory, warps."""
    for launch, outcome, kernel in zip(point.launches, outcomes, kernels, strict=True):
        if not isinstance(outcome, Compiled):
            yield f"{launch.name} ran, but was said not to: {outcome.reason}"
            continue
        ahead = outcome.resources
        warps = ahead.warps_per_cta or launch.num_warps
        said = (ahead.registers_per_thread, ahead.spilled_bytes_per_thread, ahead.smem_bytes_per_cta, warps)
        ran = (kernel.n_regs, 4 * kernel.n_spills, kernel.metadata.shared, kernel.metadata.num_warps)
        if said != ran:
            yield f"{launch.name}: compiled ahead {said}, ran {ran}"


@pytest.mark.parametrize(("schedule", "dtype"), PAIRS)
def test_kernels_are_right_and_as_promised(schedule: str, dtype: str) -> None:
    """At every point the output is within what the reference's own error allows, from memory that held NaN before."""
    chosen = list(points(schedule, dtype, DEVICE))
    if not chosen:
        tested.append(0)
        pytest.skip(f"{schedule} does not take {dtype}")
    outcomes = iter(compile_many([launch for point in chosen for launch in point.launches], DEVICE))
    wrong, differing, worst, ran, refused = [], [], 0.0, 0, 0
    for point in chosen:
        ahead = [next(outcomes) for _ in point.launches]
        if not all(isinstance(outcome, Compiled) for outcome in ahead):
            refused += 1
            continue
        tensors, kernels = launched(point)
        right, error = verdict(point, tensors)
        worst, ran = max(worst, error), ran + 1
        if not right:
            wrong.append(f"{error:.3g} {point}")
        differing += promised(point, ahead, kernels)
    tested.append(ran)
    _inputs.cache_clear()
    if RECORD:
        summary = {"schedule": schedule, "dtype": dtype, "points": ran, "refused": refused, "worst": worst}
        summary |= {"wrong": wrong[:20], "differing": differing[:20]}
        with Path(RECORD).open("a", encoding="utf-8") as file:
            file.write(json.dumps(summary) + "\n")
    assert not wrong, f"{len(wrong)} of {ran}: {wrong[:5]}"
    assert not differing, f"{len(differing)}: {differing[:5]}"
    assert ran > refused


def test_the_grid_has_thousands_of_points() -> None:
    """All schedules and dtypes together; a generator that yields nothing would pass unseen."""
    if len(tested) < len(PAIRS):
        pytest.skip("runs after all the tests that count, in the same process")
    assert sum(tested) >= LEAST_POINTS


@pytest.mark.parametrize("schedule", schedules() if PAIRS else [])
def test_repeats_give_the_same_bits(schedule: str) -> None:
    """No kernel uses atomics, so the same launch gives the same bits, whatever order CTAs ran in."""
    chosen = list(points(schedule, "fp16", DEVICE))
    for point in (chosen[0], chosen[-1]):
        first, _ = launched(point)
        for _ in range(REPEATS):
            again, _ = launched(point)
            for name in ("O", "LSE"):
                assert name not in first or torch.equal(first[name], again[name]), f"{name} of {point}"


def test_memory_is_touched_only_where_it_is_allocated() -> None:
    """compute-sanitizer finds no access out of bounds over 20 shapes of every schedule."""
    command = ["compute-sanitizer", "--tool", "memcheck", "--error-exitcode", "9", sys.executable, "-P"]
    finished = subprocess.run(
        [*command, str(Path(__file__).parent / "sanitized.py")],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"},
    )
    assert finished.returncode == 0, finished.stdout[-3000:] + finished.stderr[-1000:]
    assert "ERROR SUMMARY: 0 errors" in finished.stdout + finished.stderr
    assert "ran 20 shapes" in finished.stdout
