"""Predictions frozen as they were: which of them today's code moves, by how much, and what to do about it.

    python tests/support/frozen.py check     a table of those that moved
    python tests/support/frozen.py freeze    write those of today instead

Predictions drawn over schedules, devices, problems, configurations, states of the L2 and sources of cost, those of 300
that take little; what is refused is frozen as its reason. `tests/laws/test_frozen_predictions.py` checks them.
"""

import json
import os
import sys
from collections.abc import Iterator
from math import isclose
from multiprocessing import Pool
from pathlib import Path
from random import Random
from typing import Any

from tilesight.simulator.schedules.registry import written_schedules

from tilesight import AttentionProblem, Config, simulate

FILE = Path(__file__).with_name("frozen-predictions.json")
COUNT = 300
SMALL_SCORES = 1 << 27
"""Elements of all score matrices of a problem that takes little to predict: a tenth of a second in the mean."""
SAME = 1e-9
"""Share by which floating point may differ between processors."""
FIGURES = ("time_s", "cycles", "hbm_read_bytes", "hbm_write_bytes", "smem_fill_bytes", "executed_flop")
"""Of a whole prediction, that are compared; each launch's cost, residency and bottleneck beside them."""
SHOWN = 40
WHAT_TO_DO = (
    "If this is meant: say under 'Predictions changed' of CHANGELOG.md why, how far, and whether errors against "
    "measurements went up or down; then `python tests/support/frozen.py freeze`."
)
DEVICES = ("h200", "h200", "h100-sxm", "h100-pcie", "a100-sxm-80gb", "a100-sxm-40gb", "b200", "l40s", "rtx-4090")
LENGTHS = (128, 300, 1000, 1024, 2048, 3000, 4096, 8192)
TMA = "flash2_tma"


def cases() -> Iterator[dict[str, Any]]:
    """What is predicted: arguments of a problem, of a configuration, and of `simulate`."""
    draw = Random(24)
    names = sorted(written_schedules())
    for number in range(COUNT):
        schedule = names[number % len(names)]
        length, heads = draw.choice(LENGTHS), draw.choice((4, 8, 16, 32))
        problem = {
            "batch": draw.choice((1, 2, 4)),
            "heads": heads,
            "kv_heads": draw.choice((heads, heads, heads // 4)),
            "seqlen_q": length,
            "seqlen_k": draw.choice((length, length, draw.choice(LENGTHS))),
            "head_dim": draw.choice((64, 64, 128, 128, 80)),
            "dtype": draw.choice(("fp16", "fp16", "bf16", "fp32")),
            "causal": draw.random() < 0.5,
        }
        config: dict[str, Any] = {}
        if draw.random() < 0.7 and schedule != "online_softmax":
            config = {
                "block_m": draw.choice((64, 128)),
                "block_n": draw.choice((32, 64, 128)),
                "num_warps": draw.choice((4, 8)),
                "num_stages": draw.choice((1, 2, 3)),
            }
            if schedule.startswith("flash2") and draw.random() < 0.5:
                config["cta_order"] = draw.choice(("m-fast", "m-reversed", "longest-first", "head-fast"))
            if schedule == "flash2" and draw.random() < 0.3:
                config["kv_order"] = "sawtooth"
            if schedule == TMA and draw.random() < 0.4:
                config["warp_specialize"] = 1
        given = {
            "schedule": schedule,
            "device": draw.choice(DEVICES),
            "cost": draw.choice(("compiled", "compiled", "tiles")),
            "l2": draw.choice(("cold", "cold", "warm")),
            "overhead": draw.choice(("stream", "stream", "graph")),
        }
        if problem["batch"] * heads * length * problem["seqlen_k"] <= SMALL_SCORES:
            yield {"problem": problem, "config": config, "given": given}


def label(case: dict[str, Any]) -> str:
    """A point in one line."""
    problem, given = case["problem"], case["given"]
    config = ",".join(f"{name}={value}" for name, value in case["config"].items())
    shape = "B{batch}-H{heads}-G{kv_heads}-M{seqlen_q}-N{seqlen_k}-D{head_dim}-{dtype}".format(**problem)
    mask = "-causal" * problem["causal"]
    return f"{given['schedule']} {shape}{mask} {config} {given['device']} {given['cost']} {given['l2']}".replace(
        "  ", " "
    )


def predicted(case: dict[str, Any]) -> dict[str, Any]:
    """One prediction's figures, or why there is none."""
    try:
        config = Config(**case["config"]) if case["config"] else None
        prediction = simulate(AttentionProblem(**case["problem"]), config=config, **case["given"])
    except ValueError as error:
        return {"refused": str(error)}
    launches = prediction.launches
    return {name: getattr(prediction.total, name) for name in FIGURES} | {
        "cost": " ".join(launch.cost for launch in launches),
        "ctas_per_sm": " ".join(str(launch.ctas_per_sm) for launch in launches),
        "bottleneck": " ".join(launch.bottleneck for launch in launches),
    }


def is_same(old: Any, new: Any) -> bool:
    """Whether a figure has stayed."""
    if isinstance(old, float | int) and isinstance(new, float | int):
        return isclose(old, new, rel_tol=SAME)
    return bool(old == new)


def moves(before: list[dict[str, Any]], today: list[dict[str, Any]], labels: list[str]) -> str:
    """A table of what moved: point, figure, before, after, change; the largest change of time first; empty if nothing.

    Args:
        before, today, labels: of each point, in the same order.
    """
    moved = []
    for old, new, point in zip(before, today, labels, strict=True):
        names = [name for name in dict.fromkeys((*old, *new)) if not is_same(old.get(name), new.get(name))]
        if names:
            moved.append((_change(old.get("time_s"), new.get("time_s")), point, names, old, new))
    if not moved:
        return ""
    moved.sort(key=lambda row: -abs(row[0]))
    times = [change for change, *_ in moved]
    lines = [
        f"{len(moved)} of {len(before)} frozen predictions moved: "
        f"time by {sum(times) / len(times):+.2%} in the mean of these, by {max(times, key=abs):+.2%} at most.",
        f"{'figure':18} {'before':>16} {'after':>16} {'change':>9}  point",
    ]
    for _, point, names, old, new in moved[:SHOWN]:
        for name in names:
            was, now = old.get(name, "-"), new.get(name, "-")
            numbers = isinstance(was, float | int) and isinstance(now, float | int)
            change = f"{_change(was, now):+.2%}" if numbers else ""
            cells = [f"{value:.6g}" if isinstance(value, float) else str(value) for value in (was, now)]
            lines.append(f"{name:18} {cells[0]:>16} {cells[1]:>16} {change:>9}  {point}")
    if len(moved) > SHOWN:
        lines.append(f"... and {len(moved) - SHOWN} more points that moved less.")
    return "\n".join((*lines, WHAT_TO_DO))


def _change(old: Any, new: Any) -> float:
    return (new - old) / old if isinstance(old, float | int) and isinstance(new, float | int) and old else 0.0


def frozen() -> list[dict[str, Any]]:
    """What was frozen, in the order of `cases`."""
    kept: list[dict[str, Any]] = json.loads(FILE.read_text("utf-8"))
    return kept


def main(verb: str) -> int:
    """Freeze, or check. Returns: the exit code, 1 where a prediction differs."""
    every = list(cases())
    os.environ["TILESIGHT_PREDICTIONS"] = "off"  # each is made anew
    with Pool(2) as pool:
        today = pool.map(predicted, every, chunksize=5)
    if verb == "freeze":
        FILE.write_text("[\n" + ",\n".join(json.dumps(entry) for entry in today) + "\n]\n", "utf-8")
        print(f"{len(today)} predictions, {sum('refused' in entry for entry in today)} of them refusals")
        return 0
    table = moves(frozen(), today, [label(case) for case in every])
    print(table or f"None of {len(today)} frozen predictions moved.")
    return 1 if table else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
