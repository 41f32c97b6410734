"""How long a prediction takes, and how much memory: engine, explore, command line, first call.

    python tests/benchmarks/bench_simulate.py [--repeats 5] [--only NAME]

Every case runs in a process of its own, which reports the first call,
the best and the median of the later ones (of all, where each starts afresh),
and the peak resident memory of the largest process.
The first call of all compiles into an empty cache folder.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

LINE = 128
SHAPE = ["--batch", "4", "--heads", "32", "--seqlen", "4096", "--head-dim", "64", "--json"]
COMMAND = ["simulate", *SHAPE]
KEPT = "TILESIGHT_PREDICTIONS"
"""A file of predictions; `off`, as it is here but for one case, has each made anew."""


def attention(
    batch: int, heads: int, seqlen: int, schedule: str = "flash2", **config: int | str
) -> Callable[[], dict[str, float]]:
    """One prediction on an H200, D = 64; a function, so that imports are not timed."""
    from tilesight.simulator.problems.attention import AttentionProblem
    from tilesight.simulator.schedules.registry import find_schedule
    from tilesight.simulator.simulate import simulate

    problem = AttentionProblem(batch=batch, heads=heads, seqlen_q=seqlen, seqlen_k=seqlen, head_dim=64)
    chosen = find_schedule(schedule).config(**config)

    def run() -> dict[str, float]:
        seen = simulate(problem, schedule=schedule, config=chosen)
        stepped = min(launch.simulated_fraction for launch in seen.launches)
        return {"lines": seen.total.smem_fill_bytes / LINE, "stepped": stepped}

    return run


def exploration(workers: int) -> Callable[[], dict[str, float]]:
    """All default configurations of flash2 for B4 H32 N4096 D64."""
    from tilesight.simulator.explore.explore import explore
    from tilesight.simulator.problems.attention import AttentionProblem

    problem = AttentionProblem(batch=4, heads=32, seqlen_q=4096, seqlen_k=4096, head_dim=64)
    return lambda: {"configs": len(explore(problem, workers=workers).candidates)}


def shares(causal: bool) -> Callable[[], dict[str, float]]:
    """Every fourth configuration of an exploration, continued from a steady state and then stepped through."""
    from tilesight.simulator.explore.fastest import plan
    from tilesight.simulator.problems.attention import AttentionProblem
    from tilesight.simulator.refusal import DoesNotFit
    from tilesight.simulator.simulate import simulate

    if causal:
        device = "h100-sxm"
        problem = AttentionProblem(
            batch=1, heads=64, kv_heads=8, seqlen_q=8192, seqlen_k=8192, head_dim=128, causal=True
        )
    else:
        device = "h200"
        problem = AttentionProblem(batch=4, heads=32, seqlen_q=4096, seqlen_k=4096, head_dim=64)
    configs = [job.config for job in plan(problem, "flash2", {})[0]["flash2"]][::4]

    def timed(steady: bool) -> tuple[float, list[float]]:
        begin, stepped = time.process_time(), []
        for config in configs:
            try:
                seen = simulate(problem, config=config, device=device, steady_state=steady)
            except DoesNotFit:
                continue
            stepped.append(seen.launches[0].simulated_fraction)
        return time.process_time() - begin, stepped

    def run() -> dict[str, float]:
        whole_s, _ = timed(False)
        part_s, stepped = timed(True)
        return {
            "stepped": statistics.mean(stepped),
            "per_s": len(stepped) / part_s,
            "of_whole": part_s / whole_s,
        }

    return run


def command_line() -> Callable[[], dict[str, float]]:
    """`tilesight simulate`, the interpreter's start included."""

    def run() -> dict[str, float]:
        subprocess.run([sys.executable, "-m", "tilesight", *COMMAND], check=True, capture_output=True)
        return {}

    return run


def first_call() -> Callable[[], dict[str, float]]:
    """The same with nothing compiled yet."""

    def run() -> dict[str, float]:
        with tempfile.TemporaryDirectory() as folder:
            environment = os.environ | {"NUMBA_CACHE_DIR": folder}
            subprocess.run(
                [sys.executable, "-m", "tilesight", *COMMAND], check=True, capture_output=True, env=environment
            )
        return {}

    return run


def asked_again() -> Callable[[], dict[str, float]]:
    """`tilesight explore`, whose predictions are kept from the first call on."""
    folder = tempfile.TemporaryDirectory()
    environment = os.environ | {KEPT: os.path.join(folder.name, "predictions")}

    def run() -> dict[str, float]:
        command = [sys.executable, "-m", "tilesight", "explore", *SHAPE]
        subprocess.run(command, check=True, capture_output=True, env=environment)
        return {"kept_bytes": os.path.getsize(os.path.join(folder.name, "predictions"))}

    return run


CASES: dict[str, tuple[Callable[[], Callable[[], dict[str, float]]], float, bool]] = {
    "B4 H32 N4096 flash2": (lambda: attention(4, 32, 4096), 0.1, True),
    "B4 H32 N65536 flash2": (lambda: attention(4, 32, 65536), 1.0, True),
    "B1 H1 N65536 flash2": (lambda: attention(1, 1, 65536), 1.0, True),
    "B1 H1 N1048576 flash2, block_n=128": (lambda: attention(1, 1, 1 << 20, block_n=128), 5.0, True),
    "B4 H32 N4096 flash1": (lambda: attention(4, 32, 4096, "flash1"), 0.0, True),
    "B4 H32 N4096 naive": (lambda: attention(4, 32, 4096, "naive"), 0.0, True),
    "B4 H32 N4096 unfused": (lambda: attention(4, 32, 4096, "unfused"), 0.0, True),
    "explore, one process": (lambda: exploration(1), 0.0, False),
    "explore, two processes": (lambda: exploration(2), 15.0, False),
    "configurations of B4 H32 N4096": (lambda: shares(False), 0.0, True),
    "configurations, causal, 8 KV heads": (lambda: shares(True), 0.0, True),
    "command line, compiled": (command_line, 1.5, False),
    "command line, first call of all": (first_call, 60.0, False),
    "command line, explore asked again": (asked_again, 3.0, True),
}
"""What to run, target for the best call [s] (0: none), and whether the first call of a process stands apart."""


def measure(name: str, repeats: int) -> dict[str, float]:
    """Run one case in this process."""
    make, _, warms_up = CASES[name]
    run = make()
    times = []
    answer: dict[str, float] = {}
    for _ in range(repeats):
        begin = time.perf_counter()
        answer = run()
        times.append(time.perf_counter() - begin)
    later = times[1:] if warms_up else times
    peak = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return answer | {"first": times[0], "best": min(later), "median": statistics.median(later), "peak": peak / 1024}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", choices=CASES, help="run this case alone and print JSON")
    asked = parser.parse_args()
    os.environ[KEPT] = "off"
    if asked.only:
        print(json.dumps(measure(asked.only, asked.repeats)))
        return
    print(f"{'case':36s} {'first s':>8s} {'best s':>8s} {'median s':>8s} {'target s':>8s} {'peak MiB':>8s}  notes")
    for name, (_, target, _) in CASES.items():
        command = [sys.executable, __file__, "--only", name, "--repeats", str(asked.repeats)]
        seen = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
        notes = []
        if "lines" in seen:
            notes.append(f"{seen['lines'] / seen['best'] / 1e9:.2f} G line-equivalents/s into SMs")
        if "per_s" in seen:
            notes.append(
                f"{seen['per_s']:.1f} configurations a CPU-second, {seen['of_whole']:.2f} of the time of all steps"
            )
        if "stepped" in seen:
            notes.append(f"{seen['stepped']:.0%} stepped through")
        if "kept_bytes" in seen:
            notes.append(f"{seen['median'] / seen['first']:.3f} of the first, {seen['kept_bytes'] / 1e3:.0f} kB kept")
        if "configs" in seen:
            notes.append(f"{seen['configs']} configurations")
        if target and seen["best"] > target:
            notes.append("ABOVE TARGET")
        print(
            f"{name:36s} {seen['first']:8.3f} {seen['best']:8.3f} {seen['median']:8.3f} {target or '':>8} "
            f"{seen['peak']:8.0f}  {', '.join(notes)}",
            flush=True,
        )


if __name__ == "__main__":
    main()
