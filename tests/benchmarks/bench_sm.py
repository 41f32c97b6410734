"""How long the simulation of an SM takes for one configuration: following the code, then one CTA and a full SM.

Run it with `python tests/benchmarks/bench_sm.py`; it needs no GPU and no Triton: the code is a recorded one.
"""

import sys
from dataclasses import replace
from pathlib import Path
from statistics import median
from time import perf_counter

sys.path.insert(0, str(Path(__file__).parent.parent))

from support.made_code import CODE_CONFIG, CODE_PROBLEM, coded_launch
from tilesight.simulator.device.device import load_device
from tilesight.simulator.residency.residency import residency_of
from tilesight.simulator.schedules.registry import find_schedule
from tilesight.simulator.sm.followed import follow
from tilesight.simulator.sm.from_code import compiled_costs

TURNS = 10


def main() -> None:
    """Print a row for each number of resident CTAs."""
    device = load_device("h200")
    (launch,) = find_schedule("flash2").launches(replace(CODE_PROBLEM, heads=48), CODE_CONFIG, device)
    print("| CTAs on the SM | seconds to follow the code | seconds to simulate it |")
    print("|---|---|---|")
    for smem_bytes in (200_000, 100_000, 57_344):
        crowded = replace(launch, resources=replace(coded_launch().resources, smem_bytes_per_cta=smem_bytes))
        residency = residency_of(crowded, device)
        seconds = []
        for _ in range(1 + TURNS):
            begin = perf_counter()
            followed = follow(crowded, 90, device.sm)
            middle = perf_counter()
            cost = compiled_costs(crowded, residency, device, followed=followed)
            seconds.append((middle - begin, perf_counter() - middle))
        following, simulating = (median(column) for column in zip(*seconds[1:], strict=True))
        print(f"| {cost.resident} | {following:.3f} | {simulating:.3f} |")


if __name__ == "__main__":
    main()
