"""CPU time of the trace of a configuration of README's table (`flash2`, B=4 H=32 N=4096 D=64) from machine code.

    python tests/benchmarks/bench_trace.py [--every 5]

Beside torch and triton. Compilation is not counted. Run it in two trees in turns, and compare the ratio of the means.
"""

import argparse
import statistics
import time

import torch
from tilesight.kernels.capture.lowering import lower
from tilesight.kernels.capture.recording import capture
from tilesight.kernels.compile.calls import compile_calls
from tilesight.kernels.launch.launch import allocate, arguments_of
from tilesight.kernels.launch.registry import find_twin
from tilesight.simulator.device.device import load_device
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.refusal import Refusal
from tilesight.simulator.residency.l1_room import kept_of
from tilesight.simulator.resolve import resolve
from tilesight.simulator.schedules.registry import find_schedule
from tilesight.simulator.trace.cta.traced_kernel import CompiledKernel
from tilesight.simulator.trace.program.launch import launches_of
from tilesight.simulator.trace.program.whole_grid import trace_grid

DEVICE = load_device("h200")
PROBLEM = AttentionProblem(batch=4, heads=32, seqlen_q=4096, seqlen_k=4096, head_dim=64)


def kernels(every: int) -> list[CompiledKernel]:
    """Compiled launches of those configurations that fit. Args: every: configurations from one to the next."""
    with capture(DEVICE) as calls:
        for config in list(find_schedule("flash2").configs())[::every]:
            resolved = resolve(PROBLEM, "flash2", config, DEVICE)
            for launch in () if isinstance(resolved, Refusal) else resolved.launches:
                twin = find_twin(launch)
                tensors = {tensor.name: allocate(tensor, torch.device("meta")) for tensor in launch.program.tensors}
                twin.function[launch.grid](**arguments_of(twin, launch, tensors))
    outcomes = compile_calls([lower(call, 90) for call in calls], DEVICE, workers=1)
    return [outcome for outcome in outcomes if isinstance(outcome, CompiledKernel)]


def main() -> None:
    """Trace them, and print the time of one."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--every", type=int, default=5, help="configurations from one to the next; default: 5")
    times_s = []
    for kernel in kernels(parser.parse_args().every):
        begun = time.process_time()
        launches_of([trace_grid(kernel, kept_of(kernel.resources, kernel.grid, DEVICE))])
        times_s.append(time.process_time() - begun)
    mean, median = statistics.mean(times_s), statistics.median(times_s)
    print(f"{len(times_s)} configurations: {mean:.3f} CPU s each, median {median:.3f}, max {max(times_s):.3f}")


if __name__ == "__main__":
    main()
