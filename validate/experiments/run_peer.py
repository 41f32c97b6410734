"""Peers on the GPU of this process, measured or profiled; and our schedules profiled as they are; jobs of `worker`."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ...simulator.problems.attention import AttentionProblem
from ...simulator.schedules.registry import schedule_like
from ...simulator.simulate import launches_of
from ..measure.process import track_and_tare
from ..measure.run_point import device_told, read_job
from ..measurement import LaunchMeasurement, Measurement
from ..timing.kernel_runs import UNFUSED, KernelRun, family_of, kernels_in, short_name
from .peers import PEERS, fallback, runner

if TYPE_CHECKING:
    import torch

SEED = 20_26
PASSES = 5
"""Passes of a profile, all alike."""


def measure_peer(job: Mapping[str, Any]) -> dict[str, Any]:
    """Time, memory, kernels and errors of a peer."""
    import torch

    from ..measure.doubts import Facts, work_doubts
    from ..measure.output_checks import watch_streams
    from ..timing.profiler import trace_of
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
    seen = kernels_in(trace_of(run, 1))
    family = family_of([kernel.name for kernel in seen])
    waited_s, lingered_s = watch_streams(run)
    facts = Facts(
        untouched_fraction=0.0, stale=False, waited_s=waited_s, lingered_s=lingered_s, oracle_error=oracle_error
    )
    timing = time_run(track, run, l2=job["l2"], launches=len(seen), tare=tare)
    fell_back = fallback(peer, family)
    measurement = Measurement(
        key=job["key"],
        timing=timing,
        launches=tuple(map(_launch, seen)),
        peak_memory_bytes=peak_bytes,
        oracle_error=oracle_error,
        doubts=(*([fell_back] if fell_back else []), *work_doubts(facts)),
        counters="peers are not counted",
    )
    return {"measurement": measurement.to_dict(), "family": family}


def profile(job: Mapping[str, Any]) -> dict[str, Any]:
    """The kernels of some passes of a peer or of one of our schedules, in a stream or in a CUDA graph."""
    from ..measure.pipeline import prepare
    from ..timing.profiler import captured, trace_of

    if "peer" in job:
        problem = AttentionProblem(**job["problem"])
        run: Callable[[], object] = runner(job["peer"], problem, *_inputs(problem))
    else:
        point, _, launches = read_job(job)
        run = prepare(launches, point.problem)[0].run
    kernels = kernels_in(trace_of(captured(run) if job["way"] == "graph" else run, PASSES))
    return {"passes": PASSES, "kernels": [kernel.to_dict() for kernel in kernels]}


def peer_error(job: Mapping[str, Any], problem: AttentionProblem, tensors: Mapping[str, "torch.Tensor"]) -> float:
    """Largest error of a peer's O in units of what is allowed; what dropout drops cannot be known, and gives 0."""
    from ..measure.oracle import oracle_error

    if problem.dropout:
        return 0.0
    # Unfused peers round scores as our unfused pipeline does, fused ones as our tiled kernel.
    like = schedule_like("eager" if PEERS[job["peer"]] == UNFUSED else "sdpa").name
    *_, last = launches_of(problem, like, None, device_told(job["device"]))
    batch_heads = {name: tensor.contiguous().flatten(0, 1) for name, tensor in tensors.items()}
    return oracle_error(like, problem, last, batch_heads)


def _inputs(problem: AttentionProblem) -> tuple["torch.Tensor", "torch.Tensor", "torch.Tensor"]:
    """Random Q, K, V, the same for the same problem."""
    import torch

    from ...kernels.launch.launch import TORCH_DTYPES

    cuda = torch.device("cuda")
    shapes = [(problem.heads, problem.seqlen_q), *[(problem.kv_heads, problem.seqlen_k)] * 2]
    generator = torch.Generator(cuda).manual_seed(SEED)
    options = {"dtype": TORCH_DTYPES[problem.dtype], "device": cuda, "generator": generator}
    q, k, v = (torch.randn((problem.batch, *shape, problem.head_dim), **options) for shape in shapes)
    return q, k, v


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
