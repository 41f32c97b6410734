"""Predicted beside measured, over the measurements in `docs/validation/`: prints the tables of `docs/accuracy.md`.

Run it with `python docs/lab/accuracy.py [--device h200] [--set key=value ...]`; it needs no GPU.
Registers and shared memory are those of the compiled kernels, as they were measured.
"""

import argparse
import json
from pathlib import Path
from statistics import fmean, median

import numpy as np
from tilesight.simulator.device.device import Device, load_device, override
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.schedules.registry import find_schedule
from tilesight.simulator.simulate import simulate

DATA = Path(__file__).parent.parent / "docs" / "validation" / "h200-2026-11-20.json"
LEAST_BYTES = 1e6
"""Flows below a megabyte are noise of the counters (page tables, instruction fetches)."""
COUNTED = ("smem_fill_bytes", "hbm_read_bytes", "hbm_write_bytes", "fabric_bytes", "l2_read_bytes", "cycles")


def relative(predicted: float, measured: float) -> float:
    """(predicted - measured) / measured."""
    return (predicted - measured) / measured


def label(row: dict) -> str:
    """Problem and configuration of a row, in short."""
    p = row["problem"]
    heads = f"{p['heads']}/{p['kv_heads']}" if p["kv_heads"] != p["heads"] else f"{p['heads']}"
    lengths = f"N{p['seqlen_k']}" if p["seqlen_q"] == p["seqlen_k"] else f"M{p['seqlen_q']} N{p['seqlen_k']}"
    config = " ".join(str(value) for value in row["config"].values())
    mask = " causal" if p["causal"] else ""
    return f"{row['schedule']} B{p['batch']} H{heads} {lengths} D{p['head_dim']}{mask} [{config or 'default'}]"


def summary(name: str, errors: list[float]) -> str:
    """One row: count, median, mean, 95th percentile and worst of the absolute errors."""
    size = np.abs(errors)
    return (
        f"| {name} | {len(size)} | {median(size):.2%} | {fmean(size):.2%} | "
        f"{np.quantile(size, 0.95):.1%} | **{size.max():.1%}** |"
    )


def counted(rows: list[dict], device: Device, schedules: tuple[str, ...]) -> None:
    """Counters of single launches."""
    errors: dict[str, list[float]] = {name: [] for name in COUNTED}
    worst: list[tuple[float, str]] = []
    for row in rows:
        if row["schedule"] not in schedules:
            continue
        resources = {}
        if len(row["launches"]) == 1:
            measured = row["launches"][0]
            resources = {
                "registers": min(255, measured["registers_per_thread"]),
                "smem_bytes": measured["smem_bytes_per_cta"],
            }
        prediction = simulate(
            AttentionProblem(**row["problem"]),
            schedule=row["schedule"],
            config=find_schedule(row["schedule"]).config(**row["config"]),
            device=device,
            l2=row["l2"],
            **resources,
        )
        for launch, measured in zip(prediction.launches, row["launches"], strict=True):
            for name in COUNTED:
                if name == "cycles" or measured[name] > LEAST_BYTES:
                    errors[name].append(relative(getattr(launch.traffic, name), measured[name]))
            read = relative(launch.traffic.hbm_read_bytes, measured["hbm_read_bytes"])
            cycles = relative(launch.traffic.cycles, measured["cycles"])
            worst.append((abs(read), f"{label(row)} {launch.name}: HBM read {read:+.1%}, cycles {cycles:+.1%}"))
    print("| quantity | launches | median | mean | 95th percentile | worst |")
    print("|---|---|---|---|---|---|")
    for name, values in errors.items():
        print(summary(f"`{name}`", values))
    print("\nFarthest in HBM read:\n")
    for _, text in sorted(worst, reverse=True)[:6]:
        print(f"- {text}")


def timed(rows: list[dict], device: Device) -> None:
    """Times of many configurations of a shape."""
    shapes: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        prediction = simulate(
            AttentionProblem(**row["problem"]),
            config=find_schedule(row["schedule"]).config(**row["config"]),
            device=device,
            l2="warm",
            registers=min(255, row["registers_per_thread"]),
            smem_bytes=row["smem_bytes_per_cta"],
        )
        shapes.setdefault(label(row).split(" [")[0], []).append((prediction.time_s, row["time_s"]))
    print("| shape | configurations | MAPE | bias | Spearman | chosen / best |")
    print("|---|---|---|---|---|---|")
    for shape, pairs in shapes.items():
        predicted, measured = np.array(pairs).T
        ranks = [np.argsort(np.argsort(values)) for values in (predicted, measured)]
        print(
            f"| {shape} | {len(pairs)} | {np.abs(predicted / measured - 1).mean():.1%} | "
            f"{(predicted / measured - 1).mean():+.1%} | {np.corrcoef(*ranks)[0, 1]:.2f} | "
            f"{measured[predicted.argmin()] / measured.min():.3f} |"
        )


def main() -> None:
    """Print all tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="h200")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    options = parser.parse_args()
    device = override(load_device(options.device), options.set)
    data = json.loads(DATA.read_text())
    print("## FlashAttention-2, counters, cold L2\n")
    counted(data["counted"], device, ("flash2",))
    # The kernels of the naive and unfused pipelines have changed since they were counted.
    print("\n## FlashAttention-1, counters, warm L2\n")
    counted(data["counted"], device, ("flash1",))
    print("\n## FlashAttention-2, time over configurations, warm L2\n")
    timed(data["timed"], device)


if __name__ == "__main__":
    main()
