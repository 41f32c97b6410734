"""One process that answers what `peers`, `checkpoint` and `launches` ask of a GPU; it may die of a job without harm.

    python -m tilesight.validate.experiments.bench_process --gpu 0      answers jobs on stdin, a line of JSON each

A job's `do` says what: `memory`, `peer`, `time`, `fits` or `profile`.
An answer holds what was asked for; or `out_of_memory`; or `lost`, with the reason,
after which the process must end unless it says that it is `healthy`.
"""

import argparse
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...kernels.compile.cache import triton_cache
from ...simulator.device.device import Device, load_device
from ...simulator.device.what_if import override
from ...simulator.jobs.processes import Answerer, serve
from ...simulator.problems.attention import AttentionProblem
from ...simulator.schedules.registry import find_schedule, schedule_like
from ...simulator.simulate import launches_of
from ..measure.worker import forget, reason_of, track_and_tare
from ..measurement import LaunchMeasurement, Measurement
from ..points.point import Point, runnable_config
from ..timing.kernel_runs import UNFUSED, KernelRun, family_of, kernels_in, short_name
from .peers import PEERS, Unavailable, fallback, runner

if TYPE_CHECKING:
    import torch

MODULE = __name__
SEED = 20_26
CAP_S = 0.3
"""Time for the samples of one timing: there are many of them, and their ratios are what counts [s]."""
PASSES = 5
"""Passes of a profile, all alike."""

Ask = Callable[[Mapping[str, Any]], dict[str, Any]]
"""How a job is answered: by `asker` on a GPU, or by a stand-in."""


def asker(gpu: str, timeout_s: float) -> tuple[Ask, Callable[[], None]]:
    """A process on one GPU. Returns: a function that has it answer a job, and one that ends it.

    The answer to a job that the process dies of is `lost`; the next job finds a new process.
    """
    from ...simulator.jobs.processes import Died

    answerer = Answerer(MODULE, "process on the GPU", ["--gpu", gpu], triton_cache())

    def ask(job: Mapping[str, Any]) -> dict[str, Any]:
        try:
            answer = answerer.ask(job, timeout_s)
        except Died as death:
            return {"lost": str(death)}
        if "lost" in answer and not answer.get("healthy"):
            # Whatever it was may have broken the process's GPU context.
            answerer.stop()
        return answer

    return ask, answerer.stop


def answer(job: Mapping[str, Any]) -> dict[str, Any]:
    """Answer one job."""
    import torch

    try:
        return ANSWERS[job["do"]](job)
    except torch.OutOfMemoryError:
        return {"out_of_memory": True}
    except Unavailable as error:
        return {"lost": str(error), "healthy": True}
    except Exception as error:
        return {"lost": reason_of(error)}
    finally:
        forget()


def _memory(job: Mapping[str, Any]) -> dict[str, Any]:
    """Device memory that this process can take, with its context made and nothing held [B]."""
    import torch

    torch.zeros(1, device="cuda")
    forget()
    free_bytes, total_bytes = torch.cuda.mem_get_info()
    return {"free_bytes": free_bytes, "total_bytes": total_bytes, "gpu": torch.cuda.get_device_name()}


def _peer(job: Mapping[str, Any]) -> dict[str, Any]:
    """Time, memory, kernels and errors of a peer."""
    import torch

    from ..measure.doubts import Facts, work_doubts
    from ..measure.output_checks import watch_streams
    from ..timing.timing import time_run

    problem, peer = AttentionProblem(**job["problem"]), job["peer"]
    track, tare = track_and_tare()
    before_bytes = torch.cuda.memory_allocated()
    q, k, v = _inputs(problem)
    torch.cuda.reset_peak_memory_stats()
    run = runner(peer, problem, q, k, v)
    torch.cuda.synchronize()
    peak_bytes = torch.cuda.max_memory_allocated() - before_bytes
    oracle_error = peer_error(job, problem, {"Q": q, "K": k, "V": v, "O": run()})
    seen = _kernels(run, 1)
    names = [kernel.name for kernel in seen]
    waited_s, lingered_s = watch_streams(run)
    facts = Facts(
        untouched_fraction=0.0, stale=False, waited_s=waited_s, lingered_s=lingered_s, oracle_error=oracle_error
    )
    timing = time_run(track, run, l2=job["l2"], launches=len(seen), tare=tare)
    fell_back = fallback(peer, family_of(names))
    measurement = Measurement(
        key=job["key"],
        timing=timing,
        launches=tuple(map(_launch, seen)),
        peak_memory_bytes=peak_bytes,
        oracle_error=oracle_error,
        doubts=(*([fell_back] if fell_back else []), *work_doubts(facts)),
        counters="peers are not counted",
    )
    return {"measurement": measurement.to_dict(), "family": family_of(names)}


def _time(job: Mapping[str, Any]) -> dict[str, Any]:
    """Warm time and peak memory of one of our schedules."""
    from ..measure.pipeline import prepare
    from ..timing.timing import time_run

    point, device = _point(job)
    track, tare = track_and_tare()
    launches = point.launches(device)
    pipeline, peak_bytes = prepare(launches, point.problem, _place())
    timing = time_run(track, pipeline.run, l2="warm", launches=len(launches), tare=tare, cap_s=CAP_S)
    return {"timing": timing.to_dict(), "peak_memory_bytes": peak_bytes}


def _fits(job: Mapping[str, Any]) -> dict[str, Any]:
    """Whether one of our schedules finds the memory that it needs, and runs there.

    A pipeline runs as a whole. A schedule of one launch may take minutes at such lengths:
    it gets all its memory, but runs only its first `ctas` CTAs.
    """
    import torch

    from ...kernels.launch.launch import allocate, run
    from ...kernels.launch.registry import find_twin
    from ..measure.pipeline import prepare

    point, device = _point(job)
    launches = point.launches(device)
    if len(launches) > 1:
        _, peak_bytes = prepare(launches, point.problem, _place())
        return {"peak_memory_bytes": peak_bytes}
    (launch,) = launches
    twin = find_twin(launch, point.problem)  # before the grid is cut: the kernel must not take it for a persistent one
    before_bytes = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    tensors = {tensor.name: allocate(tensor, _place()) for tensor in launch.program.tensors}
    x, y, z = launch.grid
    run(twin, replace(launch, grid=(min(x, job["ctas"]), y, z)), tensors)
    torch.cuda.synchronize()
    return {"peak_memory_bytes": torch.cuda.max_memory_allocated() - before_bytes}


def _profile(job: Mapping[str, Any]) -> dict[str, Any]:
    """The kernels of some passes of a peer or of one of our schedules, in a stream or in a CUDA graph."""
    from ..measure.pipeline import prepare
    from ..timing.profiler import captured

    if "peer" in job:
        problem = AttentionProblem(**job["problem"])
        run: Callable[[], object] = runner(job["peer"], problem, *_inputs(problem))
    else:
        point, device = _point(job)
        pipeline, _ = prepare(point.launches(device), point.problem, _place())
        run = pipeline.run
    kernels = _kernels(captured(run) if job["way"] == "graph" else run, PASSES)
    return {"passes": PASSES, "kernels": [kernel.to_dict() for kernel in kernels]}


ANSWERS: Mapping[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    "memory": _memory,
    "peer": _peer,
    "time": _time,
    "fits": _fits,
    "profile": _profile,
}


def peer_error(job: Mapping[str, Any], problem: AttentionProblem, tensors: Mapping[str, "torch.Tensor"]) -> float:
    """Largest error of a peer's O in units of what is allowed; what dropout drops cannot be known, and gives 0."""
    from ..measure.oracle import oracle_error

    if problem.dropout:
        return 0.0
    # Unfused peers round scores as our unfused pipeline does, fused ones as our tiled kernel.
    like = schedule_like("eager" if PEERS[job["peer"]] == UNFUSED else "sdpa").name
    *_, last = launches_of(problem, like, None, device_told(job["device"]))
    slabs = {name: tensor.contiguous().flatten(0, 1) for name, tensor in tensors.items()}
    return oracle_error(like, problem, last, slabs)


def device_told(device: Mapping[str, Any]) -> Device:
    """The device of a job. Args: device: `name`, and `set` (a list of `key=value`)."""
    return override(load_device(device["name"]), device["set"])


def _point(job: Mapping[str, Any]) -> tuple[Point, Device]:
    problem = find_schedule(job["schedule"]).problem.from_dict(job["problem"])
    point = Point(schedule=job["schedule"], problem=problem, config=runnable_config(job["schedule"]), l2="warm")
    return point, device_told(job["device"])


def _place() -> "torch.device":
    import torch

    return torch.device("cuda")


def _inputs(problem: AttentionProblem) -> tuple["torch.Tensor", "torch.Tensor", "torch.Tensor"]:
    """Random Q, K, V, the same for the same problem."""
    import torch

    from ...kernels.launch.launch import TORCH_DTYPES

    generator = torch.Generator(_place()).manual_seed(SEED)
    shapes = [(problem.heads, problem.seqlen_q), *[(problem.kv_heads, problem.seqlen_k)] * 2]
    options = {"dtype": TORCH_DTYPES[problem.dtype], "device": _place(), "generator": generator}
    q, k, v = (torch.randn((problem.batch, *shape, problem.head_dim), **options) for shape in shapes)
    return q, k, v


def _kernels(run: Callable[[], object], passes: int) -> tuple[KernelRun, ...]:
    from ..timing.profiler import trace_of

    return kernels_in(trace_of(run, passes))


def _launch(kernel: KernelRun) -> LaunchMeasurement:
    """A peer's kernel, as far as the profiler knows it."""
    return LaunchMeasurement(
        name=short_name(kernel.name),
        grid=kernel.grid,
        num_warps=kernel.num_warps,
        registers_per_thread=kernel.registers_per_thread,
        spilled_bytes_per_thread=0,
        smem_bytes_per_cta=kernel.smem_bytes_per_cta,
        counters={"time_s": kernel.time_s},
    )


def main() -> None:
    """Answer jobs."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--gpu", required=True)
    os.environ["CUDA_VISIBLE_DEVICES"] = parser.parse_args().gpu  # before torch is imported
    serve(answer)


if __name__ == "__main__":
    main()
