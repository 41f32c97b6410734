"""Ahead-of-time compilation: real registers and shared memory, refusals with their reasons, a cache."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tilesight.kernels.launch.availability import missing_package
from tilesight.simulator.cache_folder import cache_folder
from tilesight.simulator.device.device import load_device
from tilesight.simulator.launch.program import Launch
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.refusal import Refusal
from tilesight.simulator.schedules.config import Config
from tilesight.simulator.schedules.registry import find_schedule

if missing_package():
    pytest.skip(str(missing_package()), allow_module_level=True)

from support.compiling import compile_launch
from tilesight.kernels.compile.compile import (
    compile_many,
    compile_pipelines,
    job_of,
    key_of,
    with_resources,
)
from tilesight.kernels.compile.outcomes import Compiled
from tilesight.kernels.compile.pool import Pool, Turns
from tilesight.kernels.compile.worker import compiled_kernel
from tilesight.simulator.jobs.processes import WorkerDied, WorkerProcess

H200 = load_device("h200")
PROBLEM = AttentionProblem(batch=4, heads=32, seqlen_q=4096, seqlen_k=4096, head_dim=64)
# One device for each architecture that kernels are compiled for, and the tensor-core instruction expected there.
DEVICES = {
    "a100-sxm-80gb": "HMMA",
    "a40": "HMMA",
    "l40s": "HMMA",
    "h200": "HGMMA",
    "b200": "UTCHMMA",
    "rtx-5090": "HMMA",
}


@pytest.fixture(autouse=True, scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache of this run's own: what is tested is compiled."""
    folder = tmp_path_factory.mktemp("compiled")
    os.environ["TILESIGHT_CACHE_DIR"] = str(folder)
    return folder


def flash2(problem: AttentionProblem = PROBLEM, **options: int) -> Launch:
    (launch,) = find_schedule("flash2").launches(problem, Config(**options), H200)  # type: ignore[arg-type]
    return launch


@pytest.mark.parametrize("device", DEVICES)
def test_flash2_compiles_for_every_architecture(device: str) -> None:
    """No spills, the architecture's own tensor-core instruction, asynchronous copies."""
    outcome = compile_launch(flash2(), load_device(device))
    assert isinstance(outcome, Compiled), outcome
    assert outcome.resources.origin == "compiled"
    assert outcome.resources.spilled_bytes_per_thread == 0
    assert 32 < outcome.resources.registers_per_thread <= 255
    assert outcome.count(DEVICES[device]) > 0, outcome.instructions
    assert outcome.count("LDGSTS") > 0
    assert outcome.resources.warps_per_cta == 4


def test_shared_memory_holds_q_and_the_stages_of_k_and_v() -> None:
    """wgmma reads Q from shared memory, and num_stages buffers of K and of V: the bytes are known exactly."""
    outcome = compile_launch(flash2(num_stages=3), H200)
    assert isinstance(outcome, Compiled)
    assert outcome.resources.smem_bytes_per_cta == 2 * 64 * (128 + 3 * 2 * 64)


def test_a_configuration_over_the_limit_becomes_a_row_with_its_reason() -> None:
    """Triton compiles it silently; the device's limit says no, and the other launches go on."""
    launches = [flash2(block_n=256, num_stages=4, num_warps=8), flash2()]
    seen: list[tuple[int, int]] = []
    large, small = compile_many(launches, H200, workers=2, progress=lambda *x: seen.append(x))
    assert isinstance(large, Refusal)
    assert large.reason == f"shared memory: a CTA needs 278528 B, {H200.name} allows 232448 B"
    assert isinstance(small, Compiled)
    assert seen == [(1, 2), (2, 2)]
    assert with_resources(launches[0], large) == launches[0]
    assert with_resources(launches[1], small).resources == small.resources


def test_a_launch_that_triton_cannot_follow_becomes_a_row_with_its_reason() -> None:
    """Warps that split keys are a schedule's, not Triton's."""
    outcome = compile_launch(replace(flash2(), warp_split="k"), H200)
    assert isinstance(outcome, Refusal)
    assert "warp_split" in outcome.reason


def test_a_compiler_that_dies_says_so_and_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason holds the signal and the line that tells; the next job finds a new process."""
    tests = str(Path(__file__).parents[1])
    # No empty entry: it would put the tree's own `kernels` folder before the planted one.
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [tests, os.environ.get("PYTHONPATH")])))
    pool = Pool()
    turns = Turns(pool)
    job = job_of(flash2(block_m=64), H200)
    with pytest.raises(WorkerDied, match=r"the compiler died \(signal 6, SIGABRT\): Assertion .* failed"):
        turns.answer({**job, "module": "kernels.dies"})
    assert turns.answer(job)["registers"] > 0
    assert "reason" in turns.answer({**job, "options": {**job["options"], "num_warps": 3}})
    pool.close()


def test_a_result_is_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second time it comes from the cache, and so does a refusal; a broken file is compiled anew."""
    first = compile_launch(flash2(block_m=64), H200)

    def refuse(*_: object) -> None:
        raise WorkerDied("asked again")

    (file,) = cache_folder().glob(f"{key_of(job_of(flash2(block_m=64), H200))}.json")
    with monkeypatch.context() as patch:
        patch.setattr(Turns, "answer", refuse)
        assert compile_launch(flash2(block_m=64), H200) == first
        file.write_text("{", encoding="utf-8")
        assert compile_launch(flash2(block_m=64), H200) == Refusal("does not fit", "asked again")
    assert compile_launch(flash2(block_m=64), H200) == first


def test_a_kernel_that_is_wanted_twice_is_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lengths of the same divisibility are one kernel, and so is a launch that several pipelines share."""
    asked: list[object] = []

    def answer(_: Turns, job: object, limit_s: object) -> dict[str, object]:
        asked.append(job)
        return {"reason": "not today"}

    monkeypatch.setattr(Turns, "answer", answer)
    longer = replace(PROBLEM, seqlen_q=8192, seqlen_k=8192, dtype="bf16")
    wanted = [flash2(problem) for problem in (replace(longer, seqlen_q=4096), longer, longer)]
    assert compile_many(wanted, H200) == [Refusal("does not fit", "not today")] * 3
    assert len(asked) == 1


def test_a_pipeline_has_the_resources_of_its_launches_or_a_reason() -> None:
    """One entry for each pipeline, in order; a launch that cannot run decides for its pipeline."""
    naive = find_schedule("naive")
    runs, too_large = (
        naive.launches(PROBLEM, naive.config(block_m=128, block_n=block_n, num_stages=stages), H200)
        for block_n, stages in ((64, 2), (256, 4))
    )
    resources, reason = compile_pipelines([runs, too_large], H200)
    assert [taken.origin for taken in resources] == ["compiled"] * 3  # type: ignore[union-attr]
    outcome = compile_launch(runs[2], H200)
    assert isinstance(outcome, Compiled) and resources[2] == outcome.resources
    assert isinstance(reason, Refusal) and reason.reason.startswith("shared memory: a CTA needs ")


def test_an_interruption_ends_the_compilers(monkeypatch: pytest.MonkeyPatch) -> None:
    """What has not begun is never begun, what has begun is killed, and nobody waits for it."""
    started: list[WorkerProcess] = []
    compilers = Pool()

    def start(*arguments: Any) -> WorkerProcess:
        started.append(WorkerProcess(*arguments))
        return started[-1]

    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("tilesight.kernels.compile.pool.WorkerProcess", start)
    monkeypatch.setattr("tilesight.kernels.compile.outcomes.POOL", compilers)
    wanted = [flash2(block_m=block_m, block_n=32, num_stages=4) for block_m in (32, 64, 128, 256)]
    with pytest.raises(KeyboardInterrupt):
        compile_many(wanted, H200, workers=2, progress=interrupt)
    assert 1 <= len(started) <= 2
    compilers.close()
    assert all(compiler._process is None for compiler in started)
    kept = [(cache_folder() / f"{key_of(job_of(call, H200))}.json").exists() for call in wanted]
    assert kept.count(True) < len(wanted)


def test_the_key_is_what_the_compiler_sees() -> None:
    """Other lengths of the same divisibility share a result; other blocks, masks, stages and targets do not."""

    def key(problem: AttentionProblem = PROBLEM, device: str = "h200", **options: int) -> str:
        return key_of(job_of(flash2(problem, **options), load_device(device)))

    assert key() == key(replace(PROBLEM, seqlen_q=8192, seqlen_k=8192)) == key(device="h100-sxm")
    others = [
        key(block_m=64),
        key(num_stages=2),
        key(num_warps=8),
        key(device="b200"),
        key(replace(PROBLEM, causal=True)),
        key(replace(PROBLEM, seqlen_q=4104)),
        key(replace(PROBLEM, dtype="bf16")),
    ]
    assert len({key(), *others}) == len(others) + 1


def test_arguments_are_specialised_as_the_jit_does() -> None:
    """Aligned pointers and multiples of 16 carry tt.divisibility, other numbers do not, and 1 is a constant."""
    problem = replace(PROBLEM, batch=1, heads=1, kv_heads=1, seqlen_k=4104)
    ttir = compiled_kernel(job_of(flash2(problem), H200)).asm["ttir"]
    header = next(line for line in ttir.splitlines() if "tt.func public" in line)
    arguments = {part.split(":")[0].strip("% "): part for part in header.split("(", 1)[1].split(", %")}
    divisible = {name for name, text in arguments.items() if "tt.divisibility = 16" in text}
    assert divisible == {"q_ptr", "k_ptr", "v_ptr", "o_ptr", "lse_ptr", "seqlen_q", "items"}
    assert "slabs" not in arguments
    assert {"seqlen_k", "scale_log2"} <= set(arguments)


def test_a_kernel_that_comes_as_ir_is_compiled_without_torch() -> None:
    """Its import takes a compiler longer than most kernels do."""
    text = """
import json, sys
from tilesight.kernels.compile.worker import answer
answered = answer(json.loads(sys.argv[1]))
print(answered["registers"], "torch" in sys.modules)
"""
    ir = "module { tt.func public @nothing() { tt.return } }"
    job = {
        "ttir": ir,
        "gluon": False,
        "name": "nothing",
        "signature": [],
        "capability": 90,
        "options": {},
        "code": True,
    }
    command = [sys.executable, "-P", "-c", text, json.dumps(job)]
    registers, torch_is_there = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert int(registers) > 0 and torch_is_there == "False"
