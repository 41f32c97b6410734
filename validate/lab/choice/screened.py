"""What a static rank keeps of configurations that were timed: needs torch and Triton, no GPU.

    python validate/lab/choice/screened.py h100 MEASURED --families gemm decode

Of each family: the fastest of the configurations kept, over the fastest measured, in the mean and at worst of its
cells, for some portions. MEASURED: packed lines, or what measure.py wrote.
"""

import argparse
import statistics
from collections import defaultdict
from pathlib import Path

from cells import CELLS, Cell
from families import EXPERIMENTS, FAMILIES
from kept import lines_of
from tilesight.kernels.capture.lowering import lower_or_refuse
from tilesight.simulator.device.device import Device, load_device
from tilesight.simulator.screening.static_time import rank_of, static_times_s

import tilesight
from tilesight.tuning.screening import USUAL, KeepFraction
from tilesight.tuning.step_kernels import NEAR
from tilesight.tuning.tile_work import static_work

PORTIONS = {"half": KeepFraction(share=0.5), "a third, 16 at least": USUAL, "a quarter": KeepFraction(share=0.25)}
PORTIONS |= {"a tenth": KeepFraction(share=0.1)}
LEAST = f"within {NEAR:g} times the least"
"""Those that `tuning.step_kernels` predicts of torch's candidates."""
WRONG = 0.03
"""Error of an output from which on its configuration does not count."""


def ranked(cell: Cell, indices: list[int], name: str, device: Device) -> dict[int, tuple[float, float]]:
    """Ranks of configurations, in order; first those whose code cannot be followed."""
    tensors, calls = cell.make("meta"), []
    for index in indices:
        with tilesight.capture(name) as launches:
            kernel, grid, args, named = cell.launch(tensors, cell.configs[index])
            kernel[grid](*args, **named)
        calls.append(lower_or_refuse(launches[0], int(device.compute_capability.replace(".", ""))))
    works = [static_work(call, device) for call in calls]
    ranks = {index: rank_of([static_times_s(work, device)]) if work else (0.0, 0.0)
             for index, work in zip(indices, works, strict=True)}  # fmt: skip
    return dict(sorted(ranks.items(), key=lambda item: item[1]))


def main() -> None:
    """Print a line for each family."""
    parser = argparse.ArgumentParser()
    parser.add_argument("device")
    parser.add_argument("measured", type=Path)
    choices = [family for family in FAMILIES if family not in EXPERIMENTS]
    parser.add_argument("--families", nargs="+", choices=choices, default=choices)
    options = parser.parse_args()
    device = load_device(options.device)
    rounds: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for line in lines_of(options.measured):
        if line["family"] in options.families and "clean_us" in line and line.get("error", 0.0) < WRONG:
            rounds[line["cell"]][line["index"]].append(line["clean_us"])
    table: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for name, times in rounds.items():
        us = {index: statistics.median(of) for index, of in times.items()}
        ranks = ranked(CELLS[name], sorted(us), options.device, device)
        order, least = list(ranks), min((rank[0] for rank in ranks.values() if rank[0]), default=0.0)
        for said, portion in PORTIONS.items():
            kept = min(us[index] for index in order[: portion.of_ranks(list(ranks.values()))])
            table[CELLS[name].family][said].append(kept / min(us.values()))
        near = min(us[index] for index in order if ranks[index][0] <= NEAR * least)
        table[CELLS[name].family][LEAST].append(near / min(us.values()))
    for family, portions in table.items():
        parts = (f"{said} {statistics.mean(of):.4f} {max(of):.3f}" for said, of in portions.items())
        print(f"{family:12s} {len(portions['half'])} cells: {'; '.join(parts)}")


if __name__ == "__main__":
    main()
