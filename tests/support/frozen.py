"""Predictions frozen before the house was rebuilt: whether today's code still gives them, bit for bit.

    python tests/support/frozen.py check     every one again; the first that differ are named, with time and HBM reads
    python tests/support/frozen.py freeze    write those of today instead

300 predictions drawn over schedules, devices, problems, configurations, states of the L2 and sources of cost; what is
refused is frozen as its reason. A digest stands for the JSON of each, without the problem and the notes.
Floating point may differ between processors.
"""

import json
import sys
from collections.abc import Iterator
from hashlib import sha256
from multiprocessing import Pool
from pathlib import Path
from random import Random
from typing import Any

from tilesight import AttentionProblem, Config, all_schedules, simulate

FILE = Path(__file__).with_name("frozen-predictions.json")
COUNT = 300
SHOWN = 10
DEVICES = ("h200", "h200", "h100-sxm", "h100-pcie", "a100-sxm-80gb", "a100-sxm-40gb", "b200", "l40s", "rtx-4090")
LENGTHS = (128, 300, 1000, 1024, 2048, 3000, 4096, 8192)
TMA = "flash2_tma"


def cases() -> Iterator[dict[str, Any]]:
    """What is predicted: arguments of a problem, of a configuration, and of `simulate`."""
    draw = Random(24)
    names = sorted(all_schedules())
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
        yield {"problem": problem, "config": config, "given": given}


def predicted(case: dict[str, Any]) -> dict[str, Any]:
    """One prediction: a digest of all its figures, and two of them to tell by; or why there is none."""
    try:
        config = Config(**case["config"]) if case["config"] else None
        prediction = simulate(AttentionProblem(**case["problem"]), config=config, **case["given"])
    except ValueError as error:
        return {"refused": str(error)}
    figures = {
        name: value for name, value in prediction.to_dict().items() if name not in ("schema", "problem", "notes")
    }
    digest = sha256(json.dumps(figures, sort_keys=True).encode()).hexdigest()[:16]
    return {"digest": digest, "time_s": prediction.total.time_s, "hbm_read_bytes": prediction.total.hbm_read_bytes}


def main(verb: str) -> int:
    """Freeze, or check. Returns: the exit code, 1 where a prediction differs."""
    every = list(cases())
    with Pool(2) as pool:
        today = pool.map(predicted, every, chunksize=5)
    if verb == "freeze":
        FILE.write_text("[\n" + ",\n".join(json.dumps(entry) for entry in today) + "\n]\n", "utf-8")
        print(f"{len(today)} predictions, {sum('refused' in entry for entry in today)} of them refusals")
        return 0
    kept = json.loads(FILE.read_text("utf-8"))
    moved = [(case, *pair) for case, *pair in zip(every, kept, today, strict=True) if pair[0] != pair[1]]
    for case, old, new in moved[:SHOWN]:
        print(f"{json.dumps(case)}\n  was {old}\n  is  {new}")
    print(f"{len(moved)} of {len(kept)} predictions differ")
    return 1 if moved else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
