"""How long the simulation of an SM takes for one configuration: decode, follow, lower, one CTA, and a full SM.

Run it with `python tests/benchmarks/bench_sm.py`; it needs no GPU and no Triton: the code is a recorded one.
"""

import sys
from dataclasses import replace
from pathlib import Path
from statistics import median
from time import perf_counter

sys.path.insert(0, str(Path(__file__).parent.parent))

from support.made_code import coded_launch
from tilesight.simulator.device.device import load_device
from tilesight.simulator.residency.residency import residency_of
from tilesight.simulator.sm.from_code import compiled_costs

TURNS = 10


def main() -> None:
    """Print a row for each number of resident CTAs."""
    device, launch = load_device("h200"), coded_launch()
    print("| CTAs on the SM | seconds a configuration |")
    print("|---|---|")
    for smem_bytes in (200_000, 100_000, 57_344):
        crowded = replace(launch, resources=replace(launch.resources, smem_bytes_per_cta=smem_bytes))
        residency = residency_of(crowded, device)
        seconds = []
        for _ in range(1 + TURNS):
            begin = perf_counter()
            cost = compiled_costs(crowded, residency, device, element_bytes=2)
            seconds.append(perf_counter() - begin)
        print(f"| {cost.resident} | {median(seconds[1:]):.3f} |")


if __name__ == "__main__":
    main()
