"""How long the simulation of an SM takes for one configuration: decode, lower, one CTA, and a full SM.

Run it with `python benchmarks/bench_sm.py`; it needs no GPU and no Triton: the code is a recorded one.
"""

import gzip
from dataclasses import replace
from pathlib import Path
from statistics import median
from time import perf_counter

from tilesight.simulator.compiled_cost import compiled_costs
from tilesight.simulator.device import load_device
from tilesight.simulator.problem import AttentionProblem
from tilesight.simulator.program import Resources
from tilesight.simulator.registry import find_schedule
from tilesight.simulator.schedule import Config

SASS = Path(__file__).parent.parent / "tests" / "recorded" / "sass-flash2-sm90.txt.gz"
TURNS = 10


def main() -> None:
    """Print a row for each number of resident CTAs."""
    device = load_device("h200")
    problem = AttentionProblem(batch=4, heads=32, seqlen_q=4096, seqlen_k=4096, head_dim=64)
    (launch,) = find_schedule("flash2").launches(problem, Config(block_m=64, num_stages=3), device)
    text = gzip.decompress(SASS.read_bytes()).decode()
    print("| CTAs on the SM | seconds a configuration |")
    print("|---|---|")
    for smem_bytes in (200_000, 100_000, 57_344):
        resources = Resources(registers_per_thread=106, smem_bytes_per_cta=smem_bytes, warps_per_cta=4)
        seconds = []
        for _ in range(1 + TURNS):
            begin = perf_counter()
            cost = compiled_costs(replace(launch, resources=resources), device, text, problem.element_bytes)
            seconds.append(perf_counter() - begin)
        print(f"| {cost.resident} | {median(seconds[1:]):.3f} |")


if __name__ == "__main__":
    main()
