"""What a static rank keeps of configurations that were timed: needs torch and Triton, no GPU.

    python validate/lab/choice/screened.py h100 MEASURED --families gemm decode

Of each family: the fastest of the configurations kept, over the fastest measured, in the mean and at worst of its
cells, for some portions. MEASURED: packed lines, or what measure.py wrote. Where predictions of the GPU are kept
(page.py): how many of the usual portion are predicted in rounds, and the regret of the choice and of the best of
three beside that of all of them.
"""

import argparse
import statistics
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from cells import CELLS, Cell
from families import EXPERIMENTS, FAMILIES
from kept import Row, lines_of
from page import GPUS, cells_of
from tilesight.kernels.capture.lowering import lower_or_refuse
from tilesight.simulator.device.device import Device, load_device
from tilesight.simulator.screening.static_time import rank_of, static_times_s

import tilesight
from tilesight.tuning.screening import USUAL, KeepFraction, Screening
from tilesight.tuning.step_kernels import NEAR
from tilesight.tuning.tile_work import static_work

PORTIONS = {"half": KeepFraction(share=0.5), "a third, 16 at least": USUAL, "a quarter": KeepFraction(share=0.25)}
PORTIONS |= {"a tenth": KeepFraction(share=0.1)}
LEAST = f"within {NEAR:g} times the least"
"""Those that `tuning.step_kernels` predicts of torch's candidates."""
WRONG = 0.03
"""Error of an output from which on its configuration does not count."""


def launches_of(cell: Cell, indices: list[int], name: str, device: Device) -> dict[int, Any]:
    """Launches of configurations, lowered."""
    tensors, calls = cell.make("meta"), {}
    for index in indices:
        with tilesight.capture(name) as launches:
            kernel, grid, args, named = cell.launch(tensors, cell.configs[index])
            kernel[grid](*args, **named)
        calls[index] = lower_or_refuse(launches[0], int(device.compute_capability.replace(".", "")))
    return calls


def ranked(calls: Mapping[int, Any], device: Device) -> dict[int, tuple[float, float]]:
    """Ranks of configurations, in order; first those whose code cannot be followed."""
    works = {index: static_work(call, device) for index, call in calls.items()}
    ranks = {index: rank_of([static_times_s(work, device)]) if work else (0.0, 0.0) for index, work in works.items()}
    return dict(sorted(ranks.items(), key=lambda item: item[1]))


def in_rounds(calls: Mapping[int, Any], said_us: Mapping[int, float], us: Mapping[int, float], device: Device) -> Row:
    """What rounds leave of those that are predicted, and regrets: of all of these, and of those that rounds predict."""
    screening, numbers = Screening(device=device), {id(calls[index]): index for index in said_us}

    def predict(asked: Any) -> list[Any]:
        times = [said_us[numbers[id(call)]] / 1e6 for call in asked]
        return [SimpleNamespace(prediction=True, traffic=SimpleNamespace(time_s=time_s)) for time_s in times]

    usual = [[calls[index] for index in said_us]]
    best = {
        "all": sorted((numbers[id(call)] for call in screening.kept(usual)[0]), key=said_us.__getitem__),
        "rounds": sorted((numbers[call] for call in screening.predicted(usual, (), predict)), key=said_us.__getitem__),
    }
    figures: Row = {"share": len(best["rounds"]) / len(best["all"])}
    for name, order in best.items():
        figures |= {f"{name} @{few}": min(us[index] for index in order[:few]) / min(us.values()) for few in (1, 3)}
    return figures


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
    gpu = next((gpu for gpu in GPUS if gpu.name.lower() == options.device), None)
    predicted = cells_of(gpu, gpu.tables[-1][1]) if gpu else {}
    rounded: dict[str, list[Row]] = defaultdict(list)
    table: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for name, times in rounds.items():
        us = {index: statistics.median(of) for index, of in times.items()}
        calls = launches_of(CELLS[name], sorted(us), options.device, device)
        ranks = ranked(calls, device)
        order, least = list(ranks), min((rank[0] for rank in ranks.values() if rank[0]), default=0.0)
        for said, portion in PORTIONS.items():
            kept = min(us[index] for index in order[: portion.of_ranks(list(ranks.values()))])
            table[CELLS[name].family][said].append(kept / min(us.values()))
        near = min(us[index] for index in order if ranks[index][0] <= NEAR * least)
        table[CELLS[name].family][LEAST].append(near / min(us.values()))
        if said_us := {line["index"]: line["us"] for line, _ in predicted.get(name, ()) if line["index"] in us}:
            rounded[CELLS[name].family].append(in_rounds(calls, said_us, us, device))
    for family, portions in table.items():
        parts = (f"{said} {statistics.mean(of):.4f} {max(of):.3f}" for said, of in portions.items())
        print(f"{family:12s} {len(portions['half'])} cells: {'; '.join(parts)}")
        for name in rounded[family][0] if rounded[family] else ():
            column = [figures[name] for figures in rounded[family]]
            print(f"    in rounds, {len(column)} cells: {name:10s} {statistics.mean(column):.4f} {max(column):.3f}")


if __name__ == "__main__":
    main()
